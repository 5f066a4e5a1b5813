# SPDX-License-Identifier: Apache-2.0
"""What BrowserGym itself says of MiniWoB++: goals, trees and rewards, for browsergym.test.ts to compare with.

    bash deploy/local/setup-browsergym.sh .whetstone/browsergym
    node tests/load/browser/oracle-actions.ts | .whetstone/browsergym/bin/python tests/load/browser/record_browsergym.py HTML

HTML is the folder `miniwob/html` of the package; the result goes to standard output, a line for each task. Each task is opened with its
seed; then the actions that solve it here are done there.
"""

import functools
import http.server
import json
import os
import sys
import threading
import time

ORIGIN = "http://miniwob.test"
# Pages that do not hang on the seed alone: by BrowserGym's own word, or by the clock (a price that comes after a while).
NONDETERMINISTIC = {
    "click-pie",
    "click-pie-nodelay",
    "terminal",
    "visual-addition",
    "stock-market",
}


class Quiet(http.server.SimpleHTTPRequestHandler):
    extensions_map = {
        **http.server.SimpleHTTPRequestHandler.extensions_map,
        ".html": "text/html; charset=utf-8",
    }

    def log_message(self, format: str, *args: object) -> None:
        del format, args


def serve(folder: str) -> str:
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Quiet, directory=folder)
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_address[1]}"


def main() -> None:
    origin = serve(sys.argv[1])
    os.environ["MINIWOB_URL"] = f"{origin}/miniwob/"
    import browsergym.miniwob  # pyright: ignore
    import gymnasium  # pyright: ignore
    from browsergym.core.action.highlevel import HighLevelActionSet  # pyright: ignore
    from browsergym.utils.obs import flatten_axtree_to_str  # pyright: ignore

    subsets = ["chat", "infeas", "bid", "coord", "nav", "tab"]
    space = HighLevelActionSet(subsets=subsets, multiaction=True)
    known = set(gymnasium.registry)
    for line in sys.stdin:
        asked = json.loads(line)
        name = f"browsergym/miniwob.{asked['task']}"
        if name not in known or asked["task"] in NONDETERMINISTIC:
            continue
        started = time.time()
        env = gymnasium.make(name, headless=True, action_mapping=space.to_python_code)
        try:
            seen, _ = env.reset(seed=asked["seed"])
            tree = flatten_axtree_to_str(seen["axtree_object"]).replace(origin, ORIGIN)
            goal, focused = seen["goal"], seen["focused_element_bid"]
            reward, errors = 0.0, []
            for action in asked["actions"]:
                seen, reward, done, _, _ = env.step(action)
                errors.append(seen["last_action_error"] != "")
                if done:
                    break
            told = {
                **asked,
                "goal": goal,
                "focused": focused,
                "tree": tree,
                "reward": reward,
                "errors": errors,
            }
            print(json.dumps(told), flush=True)
            print(
                f"{asked['task']}: {reward}, {time.time() - started:.1f} s",
                file=sys.stderr,
            )
        except Exception as error:  # noqa: BLE001
            print(f"{asked['task']}: {error}", file=sys.stderr)
        finally:
            env.close()


if __name__ == "__main__":
    main()
