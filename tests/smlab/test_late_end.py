"""SIGTERM ends a command even where its interrupt is lost."""

import signal
import subprocess
import sys

LOSES_IT = """
import importlib, time
main = importlib.import_module("smlab.cli.main")
main.ENDS_WITHIN_S = 0.5
def loses(arguments):
    while True:
        try:  # a signal may come as soon as this is read
            print("here", flush=True)
            time.sleep(60)
        except BaseException:
            pass
main.run = loses
main.main()
"""


def test_a_lost_interrupt_ends_the_command_all_the_same() -> None:
    with subprocess.Popen([sys.executable, "-c", LOSES_IT], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "here\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 128 + signal.SIGTERM
