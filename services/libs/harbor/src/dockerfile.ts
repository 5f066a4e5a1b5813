// SPDX-License-Identifier: Apache-2.0

/** One instruction of a Dockerfile, its continued lines joined. */
export interface Instruction {
  /** Of its first line, from 1. */
  readonly line: number;
  /** In capitals. */
  readonly name: string;
  readonly rest: string;
  /** Its text goes on in lines of their own. */
  readonly hasHeredoc: boolean;
}

const HEREDOC = /<<-?\s*(["']?)(?<word>[A-Za-z_]\w*)\1/u;

export function readDockerfile(text: string): Instruction[] {
  const lines = text.split(/\r?\n/u);
  const instructions: Instruction[] = [];
  for (let at = 0; at < lines.length; at += 1) {
    if (isNothing(lines[at])) continue;
    const line = at + 1;
    const whole = wholeLine(lines, at);
    const [, name = "", rest = ""] = /^\s*(\S+)\s*([\s\S]*)$/u.exec(whole.text) ?? [];
    const word = /^(RUN|COPY|ADD)$/iu.test(name) ? HEREDOC.exec(rest)?.groups?.["word"] : undefined;
    at = word === undefined ? whole.end : endOfHeredoc(lines, whole.end + 1, word);
    instructions.push({ line, name: name.toUpperCase(), rest: rest.trim(), hasHeredoc: word !== undefined });
  }
  return instructions;
}

/** With the lines that it is continued in, between which comments may stand. */
function wholeLine(lines: readonly string[], from: number): { text: string; end: number } {
  const parts: string[] = [];
  for (const [index, line] of lines.entries()) {
    if (index < from || isNothing(line)) continue;
    const trimmed = line.trimEnd();
    if (!trimmed.endsWith("\\")) return { text: [...parts, line].join(" "), end: index };
    parts.push(trimmed.slice(0, -1));
  }
  return { text: parts.join(" "), end: lines.length };
}

function isNothing(line: string | undefined): boolean {
  return /^\s*(#.*)?$/u.test(line ?? "");
}

/** Where the word stands alone; the last line where it does not. */
function endOfHeredoc(lines: readonly string[], from: number, word: string): number {
  const end = lines.findIndex((line, index) => index >= from && line.trim() === word);
  return end === -1 ? lines.length : end;
}

/** What the last stage of a Dockerfile says about every command. */
export class DockerState {
  workdir: string | undefined;
  readonly env = new Map<string, string>();
  readonly #args = new Map<string, string>();

  /** @returns false for an instruction that says nothing of it */
  take({ name, rest }: Instruction): boolean {
    switch (name) {
      case "FROM":
        this.workdir = undefined;
        this.env.clear();
        return true;
      case "WORKDIR":
        this.workdir = this.absolute(unquoted(this.expand(rest)));
        return true;
      case "ENV":
        for (const [key, value] of assignments(rest)) this.env.set(key, this.expand(value));
        return true;
      case "ARG":
        for (const [key, value] of assignments(rest)) this.#args.set(key, this.expand(value));
        return true;
      default:
        return false;
    }
  }

  /** Below the working directory, unless it is absolute. */
  absolute(path: string): string {
    return path.startsWith("/") ? path : `${(this.workdir ?? "/").replace(/\/$/u, "")}/${path}`;
  }

  expand(text: string): string {
    return text.replaceAll(/\$(?:\{(\w+)\}|(\w+))/gu, (_, braced: string | undefined, plain: string | undefined) => {
      const name = braced ?? plain ?? "";
      return this.env.get(name) ?? this.#args.get(name) ?? (name === "PATH" ? SYSTEM_PATH : "");
    });
  }
}

const SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin";

/** `A=1 B="2 3"`, and the older `A 1`. */
function assignments(text: string): [string, string][] {
  const [, key = "", value = ""] = /^(\w+)\s+([\s\S]*)$/u.exec(text) ?? [];
  if (key !== "") return [[key, value]];
  const pairs = text.matchAll(/(\w+)(?:=("(?:\\.|[^"\\])*"|'[^']*'|(?:\\.|\S)*))?/gu);
  return [...pairs].map(([, name = "", quoted = ""]) => [name, unquoted(quoted)]);
}

function unquoted(text: string): string {
  if (/^'.*'$/su.test(text)) return text.slice(1, -1);
  const inner = /^".*"$/su.test(text) ? text.slice(1, -1) : text;
  return inner.replaceAll(/\\(.)/gu, "$1");
}
