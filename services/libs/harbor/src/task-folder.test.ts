// SPDX-License-Identifier: Apache-2.0
// Folders in Harbor's format are read; what is wrong in one, and what is not played, is named by file and field.
import { mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { SOUND, writeTask } from "../test-support/tasks.ts";
import { buildPlan } from "./build-plan.ts";
import { readTask } from "./task-folder.ts";

const folder = mkdtempSync(join(tmpdir(), "whetstone-harbor-"));
afterAll(() => rmSync(folder, { recursive: true }));

let count = 0;
const read = (files: object) =>
  readTask(writeTask(join(folder, String((count += 1))), "t", files as typeof SOUND.words));
const { words, adder } = SOUND;

describe("a task folder", () => {
  it("is read: instruction, limits by their older and newer names, files with their rights", () => {
    const task = read(words);
    expect(task).toMatchObject({ name: "t", workdir: "/app", imageEnvironment: {} });
    expect(task.instruction).toMatch(/^Write the number/u);
    const environment = { memory_mb: 256, storage_mb: 10_240, cpus: 1 };
    expect(task.config).toMatchObject({ verifier: { timeout_sec: 20 }, agent: { timeout_sec: 120 }, environment });
    expect(task.tests.map(({ path, executable }) => [path, executable])).toEqual([
      ["check.py", false],
      ["test.sh", true],
    ]);
  });

  it("has the working directory and the variables of its Dockerfile", () => {
    expect(read(adder)).toMatchObject({
      workdir: "/srv/adder",
      imageEnvironment: { HOME_OF: "/srv", PARTS: "a b", ADDER: "/srv/adder" },
    });
    const own = `${adder["task.toml"]}`.replace("[environment]", '[environment]\nworkdir = "/data"');
    expect(read({ ...adder, "task.toml": own }).workdir).toBe("/data");
  });

  it("may leave everything out that has a default", () => {
    const { config } = read({ ...words, "task.toml": "" });
    expect(config).toMatchObject({ verifier: { timeout_sec: 600, env: {} }, environment: { build_timeout_sec: 600 } });
  });

  it.each([
    ['version = "1.0', /t\/task\.toml: is no TOML/u],
    ["[verifier]\ntimeout_sec = 0", /t\/task\.toml: verifier\.timeout_sec: /u],
    ['[agent]\ntimeout_sec = "long"', /t\/task\.toml: agent\.timeout_sec: /u],
    ["[environment]\nmemory = '2 pounds'", /t\/task\.toml: environment\.memory: must be a size/u],
    ["[environment]\nos = 'windows'", /t\/task\.toml: environment\.os: is not played here/u],
    ["[environment]\ngpus = 1", /t\/task\.toml: environment\.gpus: is not played here/u],
    ["[environment]\nworkdir = 'app'", /t\/task\.toml: environment\.workdir: must be an absolute path/u],
    ["[environment.healthcheck]\ncommand = 'true'", /t\/task\.toml: environment\.healthcheck: is not played here/u],
    ["[[environment.mcp_servers]]\nname = 'a'", /t\/task\.toml: environment\.mcp_servers: is not played here/u],
    ["[agent]\nuser = 'agent'", /t\/task\.toml: agent\.user: is not played here/u],
    ["[verifier]\nenvironment_mode = 'separate'", /t\/task\.toml: verifier\.environment_mode: is not played here/u],
    ["[[steps]]\nname = 'first'", /t\/task\.toml: steps: is not played here/u],
  ])("with %j is refused by its path", (toml, message) => {
    expect(() => read({ ...words, "task.toml": toml })).toThrow(message);
  });

  it("may have GPUs, servers and steps, none of them", () => {
    const toml = "steps = []\n[environment]\ngpus = 0\nmcp_servers = []\n[verifier]\ncollect = []\n";
    expect(read({ ...words, "task.toml": toml }).config.environment.gpus).toBe(0);
  });

  it.each([
    [{ "instruction.md": " \n" }, /t\/instruction\.md: must have 1/u],
    [{ "environment/docker-compose.yaml": "" }, /t\/environment\/docker-compose\.yaml: is not played here/u],
    [{ "environment/Dockerfile": "FROM a\n" }, /t\/task\.toml: environment\.workdir: is required/u],
  ])("with %j is refused by its file", (files, message) => {
    expect(() => read({ ...words, ...files })).toThrow(message);
  });

  it.each(["task.toml", "instruction.md", "tests/test.sh"])("needs its %s", (path) => {
    const { [path as "task.toml"]: _, ...files } = words;
    expect(() => read(files)).toThrow(`t/${path}: `);
  });

  it("holds no links, which could lead out of it", () => {
    const path = writeTask(folder, "linked", words);
    symlinkSync("/etc/passwd", join(path, "tests/key"));
    expect(() => readTask(path)).toThrow(/linked\/tests\/key: is neither/u);
  });
});

describe("a Dockerfile without images", () => {
  const plan = (dockerfile: string) =>
    buildPlan(
      read({ ...words, "task.toml": '[environment]\nworkdir = "/app"', "environment/Dockerfile": dockerfile }),
      "/c",
    );

  it("becomes steps with their lines, folders and variables", () => {
    const { steps, folders } = buildPlan(read(adder), "/c");
    expect(folders).toEqual(["/srv", "/data"]);
    expect(steps.map(({ what }) => /Dockerfile:(\d+)/u.exec(what)?.[1])).toEqual(["7", "8", "9", "9", "10"]);
    expect(steps.at(-1)).toMatchObject({ workdir: "/srv/adder", env: { PARTS: "a b" } });
    expect(steps.at(-1)?.script).toMatch(/^mkdir parts && for part in \$PARTS; do\s+echo/u);
  });

  it.each([
    ["FROM a\nFROM b", /t\/environment\/Dockerfile:2: a second stage/u],
    ["FROM a\nRUN <<EOF\nrm -rf x\nEOF\nWORKDIR /app", /Dockerfile:2: RUN with a text of its own/u],
    ["FROM a\n\nCOPY --from=b /x /app/", /Dockerfile:3: COPY with --from=b/u],
    ["FROM a\nCOPY *.txt /app/", /Dockerfile:2: COPY with \*\.txt/u],
    ["FROM a\nCOPY ../x /app/", /Dockerfile:2: COPY of \.\.\/x leads out/u],
    ["FROM a\nCOPY nothing /app/", /Dockerfile:2: there is no nothing/u],
    ["FROM a\nCOPY text.txt /usr/share/", /Dockerfile:2: \/usr\/share\/ cannot be written here/u],
    ["FROM a\nWORKDIR /", /Dockerfile:2: \/ cannot be written here/u],
    ["FROM a\nADD http://a/b /app/", /Dockerfile:2: ADD is not followed/u],
    ['FROM a\nRUN ["ls"]', /Dockerfile:2: RUN is followed as a line/u],
  ])("%j is refused by its line", (dockerfile, message) => {
    expect(() => plan(dockerfile)).toThrow(message);
  });

  it("is needed", () => {
    const { "environment/Dockerfile": _, ...files } = words;
    const task = read({ ...files, "task.toml": '[environment]\nworkdir = "/app"\ndocker_image = "a"' });
    expect(task.config.environment.docker_image).toBe("a");
    expect(() => buildPlan(task, "/c")).toThrow(/t\/environment\/Dockerfile: is not there, and there are no images/u);
  });
});
