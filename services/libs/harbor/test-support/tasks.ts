// SPDX-License-Identifier: Apache-2.0
// Task folders of our own, in Harbor's format.
import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

type Files = Readonly<Record<string, string>>;

const TOML = `version = "1.0"

[metadata]
author_name = "Whetstone"
difficulty = "easy"
category = "files"
tags = ["shell"]

[verifier]
timeout_sec = 20.0

[agent]
timeout_sec = 120.0

[environment]
build_timeout_sec = 60.0
cpus = 1
memory = "256M"
storage = "10G"
allow_internet = false
`;

/** Counts words; the reward is a text. */
const WORDS: Files = {
  "task.toml": TOML,
  "instruction.md": "Write the number of words in /app/text.txt to /app/answer.txt.\n",
  "environment/Dockerfile": "FROM ubuntu:24.04\n\nWORKDIR /app\nCOPY text.txt .\n",
  "environment/text.txt": "one two three\nfour five\n",
  "tests/test.sh": `#!/bin/bash
if python3 /tests/check.py; then
  echo 1 > /logs/verifier/reward.txt
else
  echo 0 > /logs/verifier/reward.txt
fi
`,
  "tests/check.py": `import pathlib
said = pathlib.Path("/app/answer.txt").read_text().split()
print("the answer is", said)
assert said == ["5"]
`,
  "solution/solve.sh": "#!/bin/bash\nwc -w < text.txt > answer.txt\n",
};

/** Repairs a program; the reward is JSON with parts, and the Dockerfile has all that can be followed. */
const ADDER: Files = {
  "task.toml": `schema_version = "1.4"

[task]
name = "whetstone/adder"

[verifier]
timeout_sec = 20
env = { CASES = "\${CASES:-3}" }

[environment]
memory_mb = 256
network_mode = "no-network"
env = { TONE = "calm" }

[solution]
env = { RIGHT = "+" }
`,
  "instruction.md": "`adder.py A B` in /srv/adder prints the wrong sum. Repair it.\n",
  "environment/Dockerfile": `# Of a base image only its name is read.
FROM python:3.12-slim
ARG HOME_OF=/srv
ENV HOME_OF=$HOME_OF PARTS="a b" \\
    # A comment may stand between.
    ADDER=\${HOME_OF}/adder
WORKDIR $ADDER
COPY --chown=1000:1000 code/ ./
COPY notes.txt code/extra.txt /data/
RUN mkdir parts && for part in $PARTS; do \\
      echo "$part" >> parts/list; \\
    done
LABEL a=b
USER nobody
CMD ["python3", "adder.py"]
`,
  "environment/code/adder.py": "import sys\n\nprint(int(sys.argv[1]) - int(sys.argv[2]))\n",
  "environment/code/extra.txt": "extra\n",
  "environment/notes.txt": "notes\n",
  "tests/test.sh": `#!/usr/bin/env bash
set -eu
passed=0
for n in $(seq 1 "$CASES"); do
  if [ "$(python3 adder.py "$n" 2)" = $((n + 2)) ]; then passed=$((passed + 1)); fi
done
[ "$(cat parts/list /data/notes.txt /data/extra.txt | tr '\\n' ' ')" = "a b notes extra " ] || exit 3
python3 -c "import json, sys; p, n = map(int, sys.argv[1:]); print(json.dumps({'reward': float(p == n), 'share': p / n}))" "$passed" "$CASES" > /logs/verifier/reward.json
`,
  "solution/solve.sh": `#!/bin/bash\nsed -i "s/ - / $RIGHT /" adder.py\n`,
};

/** The same with other tests. */
const withTests = (test: string, toml = TOML): Files => ({ ...WORDS, "task.toml": toml, "tests/test.sh": test });

export const SOUND = { words: WORDS, adder: ADDER } as const satisfies Record<string, Files>;

/** Each is a failure of the grader. */
export const FAULTS = {
  hangs: withTests("#!/bin/bash\necho 1 > /logs/verifier/reward.txt\nsleep 600\n", TOML.replace("20.0", "2.0")),
  silent: withTests("#!/bin/bash\necho nothing was found\n"),
  nonsense: withTests("#!/bin/bash\necho excellent > /logs/verifier/reward.txt\n"),
  infinite: withTests("#!/bin/bash\necho '{\"reward\": 1e999}' > /logs/verifier/reward.json\n"),
  ended: withTests("#!/bin/bash\nkill -9 $$\n"),
} as const satisfies Record<string, Files>;

/** @returns the folder of the task */
export function writeTask(parent: string, name: string, files: Files): string {
  const folder = join(parent, name);
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    writeFileSync(join(folder, path), text);
    if (path === "tests/test.sh") chmodSync(join(folder, path), 0o755);
  }
  return folder;
}
