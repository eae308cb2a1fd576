"""The functions and classes of the public package, one file for each of its subjects.

They are put together of the same parts as the commands, and give a `Result` where those write a run
folder.
"""
