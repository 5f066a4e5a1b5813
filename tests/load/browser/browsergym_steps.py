# SPDX-License-Identifier: Apache-2.0
"""Steps of BrowserGym on one page of MiniWoB++ for some seconds; a JSON line. Arguments: HTML, task, seconds."""

import json
import os
import resource
import sys
import time

from record_browsergym import serve


def cpu_seconds() -> float:
    own = resource.getrusage(resource.RUSAGE_SELF)
    return own.ru_utime + own.ru_stime + sum(cpu_of(pid) for pid in below(os.getpid()))


def below(pid: int) -> list[int]:
    found = []
    for thread in os.listdir(f"/proc/{pid}/task"):
        try:
            with open(f"/proc/{pid}/task/{thread}/children", encoding="ascii") as file:
                children = [int(child) for child in file.read().split()]
            found += [each for child in children for each in (child, *below(child))]
        except OSError:
            continue
    return found


def cpu_of(pid: int) -> float:
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            fields = file.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    except OSError:
        return 0.0


def main() -> None:
    html, task, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
    os.environ["MINIWOB_URL"] = f"{serve(html)}/miniwob/"
    import browsergym.miniwob  # pyright: ignore # noqa: F401
    import gymnasium  # pyright: ignore

    env = gymnasium.make(f"browsergym/miniwob.{task}", headless=True)
    started = time.time()
    env.reset(seed=0)
    reset = time.time() - started
    steps, cpu, started = 0, cpu_seconds(), time.time()
    while time.time() - started < seconds:
        env.step("press('13', 'Shift')")
        steps += 1
    wall, used = time.time() - started, cpu_seconds() - cpu
    env.close()
    told = {
        "resetMs": reset * 1000,
        "stepsPerSecond": steps / wall,
        "stepsPerCpuSecond": steps / used,
    }
    print(json.dumps({name: round(value, 2) for name, value in told.items()}))


if __name__ == "__main__":
    main()
