"""Recording: what a database sends to a device, layer by layer, while it runs.

`Recorder` takes the raw streams into a folder, and `finish` makes a run folder of them. Raw streams
are appended to as events come, so that a recording that was killed can be finished later.
"""
