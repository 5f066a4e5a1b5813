// SPDX-License-Identifier: Apache-2.0
import type { ConfigError } from "@whetstone/core";
import { quoted } from "@whetstone/swe";
import { DockerState, type Instruction } from "./dockerfile.ts";
import { type HarborTask, wrong } from "./task-folder.ts";

// Where there are no images, a Dockerfile is followed in the sandbox itself, as far as that can be done: the machine's own programs
// stand for its base image, files are copied, and commands run without root and without a network. What cannot be done is refused by
// its line.

/** A command of the build. */
export interface BuildStep {
  /** "environment/Dockerfile:3: COPY . /app". */
  readonly what: string;
  readonly script: string;
  readonly workdir: string;
  readonly env: Readonly<Record<string, string>>;
}

export interface BuildPlan {
  readonly steps: readonly BuildStep[];
  /** Folders of the root folder that are written. */
  readonly folders: readonly string[];
}

const SAYS_NOTHING = ["LABEL", "EXPOSE", "CMD", "ENTRYPOINT", "STOPSIGNAL", "HEALTHCHECK", "MAINTAINER", "USER"];

/** @param context  where the files of `environment` lie in the sandbox. @throws ConfigError that names the line */
export function buildPlan(task: HarborTask, context: string): BuildPlan {
  const { name, dockerfile } = task;
  if (dockerfile === undefined)
    throw wrong(
      `${name}/environment/Dockerfile`,
      "is not there, and there are no images here: name a folder in states",
    );
  const planner = new Planner(task, context);
  for (const instruction of dockerfile) planner.take(instruction);
  return { steps: planner.steps, folders: [...planner.folders] };
}

/** @throws ConfigError for a task that cannot be begun with where there are no images, as far as its files say so */
export function requireFollowable(task: HarborTask): void {
  buildPlan(task, "/");
  workdirFolder(task);
}

/** @throws ConfigError where it cannot be written without an image */
export function workdirFolder({ name, workdir }: HarborTask): string {
  const folder = rootFolder(workdir);
  if (folder !== undefined) return folder;
  throw wrong(`${name}/task.toml: environment.workdir`, `${workdir} cannot be written where there are no images`);
}

class Planner {
  readonly steps: BuildStep[] = [];
  readonly folders = new Set<string>();
  readonly #state = new DockerState();
  readonly #task: HarborTask;
  readonly #context: string;
  #stages = 0;

  constructor(task: HarborTask, context: string) {
    this.#task = task;
    this.#context = context;
  }

  take(instruction: Instruction): void {
    const refuse = (why: string): ConfigError => wrong(`${this.#file}:${instruction.line}`, why);
    if (instruction.hasHeredoc) throw refuse(`${instruction.name} with a text of its own is not followed here`);
    switch (instruction.name) {
      case "FROM":
        if ((this.#stages += 1) > 1) throw refuse("a second stage is not followed here");
        return;
      case "WORKDIR":
        return this.#enter(instruction, refuse);
      case "COPY":
        return this.#copy(instruction, refuse);
      case "RUN":
        if (/^(\[|--)/u.test(instruction.rest)) throw refuse("RUN is followed as a line of a shell only");
        return this.#add(instruction, instruction.rest);
      default:
        if (this.#state.take(instruction) || SAYS_NOTHING.includes(instruction.name)) return;
        throw refuse(`${instruction.name} is not followed here`);
    }
  }

  get #file(): string {
    return `${this.#task.name}/environment/Dockerfile`;
  }

  #add({ line, name, rest }: Instruction, script: string, workdir = this.#state.workdir ?? "/"): void {
    const what = `${this.#file}:${line}: ${name} ${rest.slice(0, 200)}`;
    this.steps.push({ what, script, workdir, env: Object.fromEntries(this.#state.env) });
  }

  #enter(instruction: Instruction, refuse: Refuse): void {
    this.#state.take(instruction);
    const { workdir = "/" } = this.#state;
    this.folders.add(rootOf(workdir, refuse));
    this.#add(instruction, `mkdir -p -- ${quoted(workdir)}`, "/"); // It is not there yet.
  }

  #copy(instruction: Instruction, refuse: Refuse): void {
    const { sources, target } = copied(this.#state.expand(instruction.rest), refuse);
    const to = `${this.#state.absolute(target.replace(/\/$/u, ""))}${target.endsWith("/") ? "/" : ""}`;
    this.folders.add(rootOf(to, refuse));
    const { environment } = this.#task;
    const copying = { environment, context: this.#context, isOne: sources.length === 1, refuse };
    for (const source of sources) this.#add(instruction, copyScript(source, to, copying));
  }
}

type Refuse = (why: string) => ConfigError;

function copied(rest: string, refuse: Refuse): { sources: string[]; target: string } {
  const words = rest.split(/\s+/u).filter((word) => !word.startsWith("--chown="));
  const odd = words.find((word) => /^--|^\[|[*?"'\\]/u.test(word));
  if (odd !== undefined) throw refuse(`COPY with ${odd} is not followed here: name files and folders`);
  const target = words.pop();
  if (target === undefined || words.length === 0) throw refuse("COPY needs what is copied, and where to");
  return { sources: words, target };
}

interface Copying {
  readonly environment: HarborTask["environment"];
  readonly context: string;
  readonly isOne: boolean;
  readonly refuse: Refuse;
}

/** As Docker copies: what is in a folder, or a file into a folder or by another name. */
function copyScript(source: string, to: string, { environment, context, isOne, refuse }: Copying): string {
  const path = source.replace(/^\.?\/+/u, "").replace(/\/$/u, "");
  if (path.split("/").includes("..")) throw refuse(`COPY of ${source} leads out of the folder environment`);
  const isFolder = path === "" || path === "." || environment.some((file) => file.path.startsWith(`${path}/`));
  if (!isFolder && !environment.some((file) => file.path === path))
    throw refuse(`there is no ${source} in the folder environment`);
  const from = quoted(isFolder && (path === "" || path === ".") ? context : `${context}/${path}`);
  const target = quoted(to);
  if (isFolder) return `mkdir -p -- ${target} && cp -R -- ${from}/. ${target}`;
  if (to.endsWith("/") || !isOne) return `mkdir -p -- ${target} && cp -- ${from} ${target}`;
  return `mkdir -p -- "$(dirname -- ${target})" && cp -- ${from} ${target}`;
}

/** Folders that sandboxes have, or that nobody may write. */
const HAVE = ["workspace", "tmp"];
const SYSTEM = ["usr", "bin", "sbin", "lib", "lib64", "etc", "proc", "sys", "dev", "run", "whetstone"];

function rootOf(path: string, refuse: Refuse): string {
  const root = rootFolder(path);
  if (root !== undefined) return root;
  throw refuse(`${path} cannot be written here: there is no image, and the root folder is the machine's own`);
}

/** Undefined: nothing can be written there. */
export function rootFolder(path: string): string | undefined {
  const [, first = ""] = path.split("/");
  return first === "" || SYSTEM.includes(first) || path.split("/").includes("..") ? undefined : `/${first}`;
}

/** Without those that every sandbox has. */
export function ownFolders(folders: readonly string[]): string[] {
  return [...new Set(folders)].filter((folder) => !HAVE.includes(folder.slice(1)));
}
