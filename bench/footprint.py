"""W6: what an import costs, in a fresh process: run as a script with the statement as argument.

Only the standard library is used, and little of it: what is loaded here is not the peer's.
"""

import os
import sys
import time


def resident_mb() -> float:
    """Resident memory in MB (2**20 bytes); its peak where no more is known."""
    try:
        with open("/proc/self/statm") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    except OSError:
        import resource

        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


def main() -> None:
    """Import, and print CPU ms of the process, wall ms of the import, MB and modules."""
    start = time.perf_counter()
    exec(sys.argv[1], {})
    wall = time.perf_counter() - start
    print(time.process_time() * 1e3, wall * 1e3, resident_mb(), len(sys.modules))


if __name__ == "__main__":
    main()
