"""Append records through the Python API, one JSON line on stdout for each that was acknowledged.

    python append_worker.py REPOSITORY BACKEND COUNT NAME

Starts with the first line on stdin. A lost race is tried again, as the refusal says; how often is the last line.
"""

from __future__ import annotations

import json
import sys

from hn_memory import HnError, RecordArguments, open_repository
from hn_memory.errors import ConflictError


def main() -> int:
    repository, backend, count, name = sys.argv[1:]
    conflicts = 0
    try:
        with open_repository(repository, backend=backend) as service:
            assert service.environment.repository.backend == backend
            print(json.dumps({"ready": True}), flush=True)
            sys.stdin.readline()
            for number in range(int(count)):
                content = f"{name} {number}"
                while True:
                    try:
                        answer = service.record(RecordArguments(kind="observation", content=content))
                        break
                    except ConflictError:
                        conflicts += 1
                print(json.dumps({"content": content, "memoryId": answer["memoryId"]}), flush=True)
    except HnError as error:
        print(f"{error.code}: {error.message}", file=sys.stderr)
        return error.exit_status
    print(json.dumps({"conflicts": conflicts}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
