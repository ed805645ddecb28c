"""Schemathesis over every operation of a server that this script starts; ends with schemathesis's exit code.

python .ci/fuzz.py [EXAMPLES]     examples for each operation, 12 unless told
"""

import http.client
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

CONFIGURATION = Path(__file__).with_name("schemathesis.toml").resolve()
SECONDS_TO_START = 60
# Every value at the edge of what the document says, of every parameter, comes to some 70,000 requests, and schemes
# share their parameters: these are one scheme of each family, and all that is no scheme. The rest runs for all of them.
EDGES = (
    r"^/(v1/(encodings/sinusoidal|biases/alibi-slopes|masks/chunked|apply/kerple|positions/packed|analyses/norm"
    r"|permutations/rope|learned/lookup)(\.|$)|v1/(models|schemes|advice|bundle)|v2|health|problems|openapi)"
)
RUNS = (
    ("--phases", "examples,fuzzing,stateful"),
    ("--phases", "coverage", "--include-path-regex", EDGES),
)
WRITTEN: list[str] = []
# What this run asks for must not fill the machine: answers over these limits are refused like any other.
LIMITS = {"POSENC_RESULT_BYTES": "16MiB", "POSENC_JSON_BYTES": "4MiB", "POSENC_DRAIN_SECONDS": "0"}


def main(examples: str = "12") -> int:
    server = subprocess.Popen(
        [sys.executable, "-m", "service", "serve", "--port", "0"],
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | LIMITS,
    )
    try:
        address = listening(server)
        wait_until_ready(address)
        log = threading.Thread(target=follow, args=(server,))
        log.start()
        fuzzed = max(fuzz(address, examples, *run) for run in RUNS)
    finally:
        server.terminate()
        stopped = server.wait(30)
    log.join(30)
    print("".join(WRITTEN), end="")
    print(f"schemathesis ended with {fuzzed}, the server with {stopped}, its log has {len(WRITTEN)} lines above info")
    return fuzzed or stopped or len(WRITTEN)


def follow(server: "subprocess.Popen[str]") -> None:
    """Keep what the server writes besides that it stops: no request may make it write a warning or a traceback."""
    assert server.stderr is not None
    WRITTEN.extend(line for line in server.stderr if " INFO " not in line)


def listening(server: "subprocess.Popen[str]") -> str:
    """Host and port, from the first line of the log."""
    assert server.stderr is not None
    return server.stderr.readline().strip().rpartition("http://")[2]


def wait_until_ready(address: str) -> None:
    end = time.monotonic() + SECONDS_TO_START
    while True:
        connection = http.client.HTTPConnection(address, timeout=SECONDS_TO_START)
        try:
            connection.request("GET", "/health/ready")
            if connection.getresponse().status == 200:
                return
        except OSError:
            pass
        finally:
            connection.close()
        if time.monotonic() > end:
            raise TimeoutError(address)
        time.sleep(0.05)


def fuzz(address: str, examples: str, *which: str) -> int:
    start = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(CONFIGURATION)]
    command = ["run", f"http://{address}/openapi.json", "--checks", "all"]
    bounds = ["--max-examples", examples, "--workers", "1", "--seed", "1", "--generation-database", "none"]
    # Longer than any answer takes on two cores that other stages use too: what hangs fails all the same.
    bounds += ["--request-timeout", "60"]
    with tempfile.TemporaryDirectory() as folder:  # what it remembers of a run is of no use to the next
        return subprocess.run([*start, *command, *bounds, *which], cwd=folder, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
