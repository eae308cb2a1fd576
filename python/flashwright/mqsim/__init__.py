"""Configurations of the simulator MQSim, made into profiles and commands of ours.

What is said here of MQSim is of its sources: https://github.com/CMU-SAFARI/MQSim, 7ec40e3.
"""
