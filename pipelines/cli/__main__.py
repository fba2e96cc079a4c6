"""`python -m pipelines.cli` is `kerneltrack`."""

import sys

from pipelines.cli.main import main

sys.exit(main())
