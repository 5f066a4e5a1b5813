// SPDX-License-Identifier: Apache-2.0
import type { ExecResult } from "@whetstone/sandbox";
import type { Info } from "@whetstone/sdk";
import { Tool, ToolError, type ToolRunOptions } from "@whetstone/tools";
import { type AgentShell, quoted } from "../agent-shell.ts";
import { ofThePlatform } from "../infrastructure.ts";
import type { BashToolOptions } from "./bash-tool.ts";
import { condensed, inserted, numbered, ranged, replaced, snippetAt } from "./file-views.ts";

const COMMANDS = ["view", "create", "str_replace", "insert", "undo_edit"] as const;
/** Larger files are for other tools. */
const MAX_BYTES = 1024 * 1024;
const MAX_CHARACTERS = 10_000;
/** Longer Python files are shown without the bodies of their functions, unless a range says otherwise. */
const WHOLE_LINES = 110;
/** Earlier texts that are kept, of all files together. */
const MAX_UNDO = 50;

interface Earlier {
  readonly path: string;
  /** Undefined: there was no file. */
  readonly text: string | undefined;
}

/**
 * R2E-Gym's `file_editor` (elsewhere `str_replace_editor`). It reads and writes with the sandbox's own shell, so that it needs
 * nothing in the image; what it remembers for `undo_edit` lies here, where the agent cannot reach it.
 */
export class FileEditorTool extends Tool {
  readonly name = "file_editor";
  readonly description: string;
  readonly parameters: Info = {
    type: "object",
    properties: {
      command: { type: "string", enum: COMMANDS, description: "What to do." },
      path: { type: "string", minLength: 1, description: "A file, or for view a folder." },
      file_text: { type: "string", description: "create: all of the new file." },
      old_str: {
        type: "string",
        description: "str_replace: the text to replace. It must stand in the file exactly once.",
      },
      new_str: {
        type: "string",
        description: "str_replace: the new text (default: none). insert: the lines to insert.",
      },
      insert_line: { type: "integer", minimum: 0, description: "insert: the line after which to insert; 0: in front." },
      view_range: {
        type: "array",
        items: { type: "integer" },
        minItems: 2,
        maxItems: 2,
        description: "view: first and last line, e.g. [11, 40]; a last line of -1 is the end.",
      },
      concise: { type: "boolean", description: "view: leave out the bodies of a Python file's functions." },
    },
    required: ["command", "path"],
    additionalProperties: false,
  };
  readonly #shell: AgentShell;
  readonly #options: BashToolOptions;
  readonly #earlier: Earlier[] = [];

  constructor(shell: AgentShell, options: BashToolOptions) {
    super();
    this.#shell = shell;
    this.#options = options;
    this.description =
      `Views, creates and edits files. Paths are absolute or relative to ${shell.root}. view shows a file with line numbers, or ` +
      "what lies in a folder two levels deep; create makes a file that is not there yet; undo_edit takes the last edit of a file back.";
  }

  async run(args: Info, { signal }: ToolRunOptions): Promise<string> {
    const path = String(args["path"]).trim();
    const done = await this.#do(args, path, signal);
    const over = done.length - MAX_CHARACTERS;
    const told =
      over > 0 ? `${done.slice(0, MAX_CHARACTERS)}\n… (${over} more characters: view a range of lines)` : done;
    return `Execution output of [${this.name}]:\n${told}`;
  }

  async #do(args: Info, path: string, signal: AbortSignal): Promise<string> {
    switch (args["command"] as (typeof COMMANDS)[number]) {
      case "view":
        return this.#view(path, args, signal);
      case "create":
        return this.#create(path, needed(args, "file_text"), signal);
      case "str_replace": {
        const { text, line } = replaced(
          await this.#read(path, signal),
          needed(args, "old_str"),
          textOf(args["new_str"]),
        );
        return this.#edit(path, { text, line, size: textOf(args["new_str"]).split("\n").length }, signal);
      }
      case "insert": {
        const lines = needed(args, "new_str");
        const line = Number(needed(args, "insert_line"));
        const text = inserted(await this.#read(path, signal), lines, line);
        return this.#edit(path, { text, line: line + 1, size: lines.split("\n").length }, signal);
      }
      case "undo_edit":
        return this.#undo(path, signal);
    }
  }

  async #view(path: string, args: Info, signal: AbortSignal): Promise<string> {
    const p = quoted(path);
    const list = `find ${p} -maxdepth 2 -not -path '*/.*' | sort`;
    const folder = await this.#sh(`if [ -d ${p} ]; then ${list}; else exit 9; fi`, signal);
    if (folder.exitCode === 0) return `Files and folders in ${path}, two levels deep:\n${folder.stdout}`;
    const text = await this.#read(path, signal);
    const range = args["view_range"] as readonly [number, number] | undefined;
    if (range !== undefined) return `Lines of ${path}:\n${ranged(text, range)}`;
    const isLong = text.split("\n").length > WHOLE_LINES;
    if (path.endsWith(".py") && (args["concise"] ?? isLong) === true)
      return `${path}, without the bodies of its functions (view_range shows them):\n${condensed(text)}`;
    return `${path}:\n${numbered(text.split("\n"))}`;
  }

  async #create(path: string, text: string, signal: AbortSignal): Promise<string> {
    const { exitCode } = await this.#sh(`[ ! -e ${quoted(path)} ]`, signal);
    if (exitCode !== 0) throw new ToolError(`${path} is there already: edit it with str_replace or insert.`);
    await this.#write(path, text, signal);
    this.#remember({ path, text: undefined });
    return `${path} was created:\n${numbered(text.split("\n"))}`;
  }

  async #edit(path: string, { text, line, size }: Edited, signal: AbortSignal): Promise<string> {
    const before = await this.#read(path, signal);
    await this.#write(path, text, signal);
    this.#remember({ path, text: before });
    return `${path} was edited. Around the place it is now:\n${snippetAt(text, line, size)}`;
  }

  async #undo(path: string, signal: AbortSignal): Promise<string> {
    const at = this.#earlier.findLastIndex((each) => each.path === path);
    const earlier = this.#earlier[at];
    if (earlier === undefined) throw new ToolError(`There is no edit of ${path} to take back.`);
    if (earlier.text === undefined) await this.#sh(`rm -f -- ${quoted(path)}`, signal);
    else await this.#write(path, earlier.text, signal);
    this.#earlier.splice(at, 1);
    return earlier.text === undefined ? `${path} is not there any more.` : `The last edit of ${path} was taken back.`;
  }

  #remember(earlier: Earlier): void {
    this.#earlier.push(earlier);
    if (this.#earlier.length > MAX_UNDO) this.#earlier.shift();
  }

  async #read(path: string, signal: AbortSignal): Promise<string> {
    const p = quoted(path);
    const size = `[ "$(wc -c <${p})" -le ${MAX_BYTES} ] || exit 8`;
    const { exitCode, stdout } = await this.#sh(
      `[ -d ${p} ] && exit 7; [ -f ${p} ] || exit 6; ${size}; cat -- ${p}`,
      signal,
    );
    if (exitCode !== 0) throw new ToolError(`${path} ${WHY_NOT[exitCode] ?? "cannot be read."}`);
    return stdout;
  }

  async #write(path: string, text: string, signal: AbortSignal): Promise<void> {
    const p = quoted(path);
    const { exitCode, stderr } = await this.#sh(`mkdir -p -- "$(dirname -- ${p})" && cat >${p}`, signal, text);
    if (exitCode !== 0) throw new ToolError(`${path} cannot be written: ${stderr.trim().slice(-300)}`);
  }

  #sh(command: string, signal: AbortSignal, stdin = ""): Promise<ExecResult> {
    const options = { timeoutMs: this.#options.timeoutMs, maxOutputBytes: 4 * MAX_BYTES, stdin, signal };
    return ofThePlatform(() => this.#shell.run(command, options));
  }
}

interface Edited {
  readonly text: string;
  /** Where the edit begins, from 1, and how many lines it has. */
  readonly line: number;
  readonly size: number;
}

const WHY_NOT: Readonly<Record<number, string>> = {
  6: "is not there.",
  7: "is a folder: only view takes folders.",
  8: `is larger than ${MAX_BYTES} bytes: use another tool for it.`,
};

function needed(args: Info, name: string): string {
  const value = args[name];
  if (value === undefined) throw new ToolError(`${String(args["command"])} needs ${name}.`);
  return textOf(value);
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : value === undefined ? "" : JSON.stringify(value);
}
