"""pip install from the sources writes _header.py; an installation has it."""
import os
import subprocess
import sys

import setuptools

ROOT = os.path.join("..", "..")
if os.path.exists("generate.py"):
    with open(os.path.join("stepwell", "_header.py"), "wb") as file:
        subprocess.run([sys.executable, "generate.py", os.path.join(ROOT, "runtime", "stepwell.h"), ROOT], check=True, stdout=file)
setuptools.setup()
