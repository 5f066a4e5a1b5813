// SPDX-License-Identifier: Apache-2.0
import { lstatSync, readdirSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { ConfigError, parseOrThrow, WhetstoneError } from "@whetstone/core";
import { parse as parseToml } from "smol-toml";
import { DockerState, type Instruction, readDockerfile } from "./dockerfile.ts";
import { type TaskConfig, TaskConfigSchema } from "./task-config.ts";

/** A file of a task, by its path below `tests`, `solution` or `environment`. */
export interface TaskFile {
  readonly path: string;
  readonly content: Uint8Array;
  readonly executable: boolean;
}

/** A folder as Harbor wants it. */
export interface HarborTask {
  readonly name: string;
  readonly instruction: string;
  readonly config: TaskConfig;
  readonly tests: readonly TaskFile[];
  /** Empty: it has none. */
  readonly solution: readonly TaskFile[];
  readonly environment: readonly TaskFile[];
  /** Of `environment/Dockerfile`. */
  readonly dockerfile: readonly Instruction[] | undefined;
  /** Where commands begin. */
  readonly workdir: string;
  /** Variables that the image has. */
  readonly imageEnvironment: Readonly<Record<string, string>>;
}

const MAX_FOLDER_BYTES = 64 * 1024 * 1024;
const MAX_FOLDER_FILES = 10_000;
const MAX_INSTRUCTION = 100_000;

/** @throws ConfigError that names each file, and the field in it */
export function readTask(folder: string): HarborTask {
  const name = basename(folder);
  const config = readConfig(folder, name);
  const instruction = readText(folder, name, "instruction.md").trim();
  if (instruction.length === 0 || instruction.length > MAX_INSTRUCTION)
    throw wrong(`${name}/instruction.md`, `must have 1 to ${MAX_INSTRUCTION} characters`);
  const files = (part: string): TaskFile[] => readFiles(folder, name, part);
  const [tests, environment] = [files("tests"), files("environment")];
  if (!tests.some(({ path }) => path === "test.sh")) throw wrong(`${name}/tests/test.sh`, "is not there");
  for (const [file, why] of Object.entries(NOT_PLAYED))
    if (environment.some(({ path }) => path === file)) throw wrong(`${name}/environment/${file}`, why);
  const text = environment.find(({ path }) => path === "Dockerfile")?.content;
  const dockerfile = text && readDockerfile(new TextDecoder().decode(text));
  const state = new DockerState();
  for (const instruction of dockerfile ?? []) state.take(instruction);
  const workdir = config.environment.workdir ?? state.workdir;
  if (workdir === undefined)
    throw wrong(`${name}/task.toml: environment.workdir`, "is required where environment/Dockerfile has no WORKDIR");
  const imageEnvironment = Object.fromEntries(state.env);
  const solution = files("solution");
  return { name, instruction, config, tests, solution, environment, dockerfile, workdir, imageEnvironment };
}

const NOT_PLAYED = Object.fromEntries(
  ["docker-compose.yaml", "docker-compose.yml", "singularity-compose.yaml"].map((file) => [
    file,
    "is not played here: a task is one sandbox, without services beside it",
  ]),
);

function readConfig(folder: string, name: string): TaskConfig {
  const text = readText(folder, name, "task.toml");
  let value: unknown;
  try {
    value = parseToml(text);
  } catch (error) {
    throw wrong(`${name}/task.toml`, `is no TOML: ${WhetstoneError.from(error).message.split("\n")[0] ?? ""}`);
  }
  try {
    return parseOrThrow(TaskConfigSchema, value, "");
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    throw new ConfigError(error.violations.map(({ path, reason }) => ({ path: `${name}/task.toml: ${path}`, reason })));
  }
}

function readText(folder: string, name: string, file: string): string {
  try {
    return readFileSync(join(folder, file), "utf8");
  } catch (error) {
    throw wrong(`${name}/${file}`, `cannot be read: ${WhetstoneError.from(error).message}`);
  }
}

/** All regular files. A link could lead out of the task, so that there may be none. */
function readFiles(folder: string, name: string, part: string): TaskFile[] {
  const root = join(folder, part);
  if (lstatSync(root, { throwIfNoEntry: false })?.isDirectory() !== true) return [];
  const files: TaskFile[] = [];
  let bytes = 0;
  for (const path of readdirSync(root, { recursive: true, encoding: "utf8" }).toSorted()) {
    const { mode, size, ...entry } = describe(join(root, path));
    if (entry.isFolder) continue;
    if (!entry.isFile) throw wrong(`${name}/${part}/${path}`, "is neither a file nor a folder");
    bytes += size;
    if (bytes > MAX_FOLDER_BYTES || files.length >= MAX_FOLDER_FILES)
      throw wrong(`${name}/${part}`, `has more than ${MAX_FOLDER_FILES} files or ${MAX_FOLDER_BYTES} bytes`);
    files.push({ path, content: readFileSync(join(root, path)), executable: (mode & 0o100) !== 0 });
  }
  return files;
}

function describe(path: string) {
  const found = lstatSync(path);
  return { mode: found.mode, size: found.size, isFolder: found.isDirectory(), isFile: found.isFile() };
}

export function wrong(path: string, reason: string): ConfigError {
  return new ConfigError([{ path, reason }]);
}
