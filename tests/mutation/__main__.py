import signal
import sys

from .runner import main

if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(2))  # so that the forks are ended too
    sys.exit(main())
