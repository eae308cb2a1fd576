"""Why a key of MQSim means something else here, or nothing."""

TLC_PAGES = "here page i is of type i mod 3; MQSim's pages are in pairs: the mean is the same"
COMMAND = "its fixed NV-DDR2 times: 0.29 us a read, 0.36 us a program; one time here, the read's"
MULTI_PLANE = "MQSim always may, of pages of one number; here reads may be of any"
PRIORITIES = "a flow's priority counts here where requests wait in the host, not among commands"
SUSPENSION = {
    "NONE": "",
    "PROGRAM": "here reads interrupt erases, too",
    "ERASE": "here it would be for programs, too, which take more of the time: so neither",
    "PROGRAM_ERASE": "",
}
SUSPEND_TIME = "MQSim takes it once; here it is taken to interrupt, and again to resume"
SUSPEND_PREFERENCE = "here a read interrupts at any moment, or never: media.suspend"
QUEUES = "the smaller counts. MQSim has a queue for each flow; here flows share one"
SATA_DELAY = "MQSim has one server for requests, one for completions; only the first is one here"
CACHING = (
    "MQSim writes a page back at once the first time in a second, after that when its place is "
    "needed; here always at once"
)
BOTH_CACHES = "MQSim keeps writes and reads in one; here each has half"
CACHE_UNKNOWN = "no workload says how flows use it: taken as WRITE_CACHE"
PLANE_ORDER = "here pages go over channels first, then dies, then planes: as CWDP"
SPARE = "(physical - logical) / logical here; MQSim divides by physical"
VICTIMS = {
    "GREEDY": "",
    "RGA": "",
    "RANDOM": "of erase blocks that are written to their end: MQSim's RANDOM_P",
    "RANDOM_P": "",
    "RANDOM_PP": "here also one with few invalid pages",
    "FIFO": "",
}
PREEMPTION = (
    "here reads overtake cleaning at each die (media.order), and it is urgent when space runs out"
)
ENDURANCE = "here an erase block is retired at it; in MQSim nothing happens"
WEAR = "MQSim does not hand the key on: it always levels"
STATIC_WEAR = (
    "its rule, a difference of erases, is none of wear_levelling.static_rule; nor does MQSim hand "
    "the key on: it takes true and 100"
)
PERIODS = "windows of over_time choose their own length"
PRECONDITIONING = "true: aged; false: loaded, or fresh where no flow reads"
RESOURCES = (
    "here a flow's pages go to all of them; its share of the addresses is what MQSim gives it"
)
NO_PRIORITIES = "MQSim looks at it with NVMe and PRIORITY_OUT_OF_ORDER alone"
CACHE_MODES = "here it is the drive's and not a flow's: what any flow has, all have"
OCCUPANCY = "here an aged drive is full: cleaning costs more than where a part was never written"
SEEDS = "here each flow draws numbers of its own from --seed, which is the drive's Seed"
STREAMING = "MQSim begins at a random address, here it is the first"
HOT_AND_COLD = (
    "each has its share of the requests outstanding, at least one, or of the rate: of what is done "
    "as long as both are equally fast"
)
INTERVALS = "MQSim draws exponential times between requests, here they are all the mean"
ENDS = "here all ends with the first flow; in MQSim each flow has an end of its own"
TRACE_PLACES = "its addresses: MQSim takes them modulo the flow's part, here extents move together"
UNITS = "MQSim takes times as nanoseconds, too, whatever the unit"
PERCENT = "only a trace that is there, and alone, can be played in part (--requests counts all)"
