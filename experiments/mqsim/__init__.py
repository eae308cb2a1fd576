"""MQSim itself, run beside our simulated drives: https://github.com/CMU-SAFARI/MQSim, 7ec40e3."""
