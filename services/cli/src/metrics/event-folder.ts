// SPDX-License-Identifier: Apache-2.0
/** A job's metrics as event files, which TensorBoard shows while they grow: its log folder has one folder a job. */
import { appendFileSync, closeSync, openSync, readFileSync, readdirSync } from "node:fs";
import { join, resolve } from "node:path";

import type { Job } from "@whetstone/proto/jobs/v1/jobs";

import { badInput, CliError } from "../cli-error.ts";
import { checkWritable, makeFolder } from "../runtime/make-folder.ts";
import { pointEvent, pointOf, versionEvent } from "./event.ts";
import type { MetricsPoint } from "./metrics-point.ts";
import { frameOf, recordsOf } from "./record-frames.ts";

/** `events.out.tfevents.<seconds>.whetstone`: TensorBoard reads a folder's files in the order of their names. */
const NAME = /^events\.out\.tfevents\.(\d{10})\.whetstone$/;

/** @throws bad input when nothing can be written there */
export function checkLogFolder(folder: string): void {
  const [violation] = checkWritable(resolve(folder));
  if (violation) throw badInput([{ path: "--tensorboard", reason: `${violation.path} ${violation.reason}` }]);
}

/** What an earlier call wrote is not written again: new points go to a new file, made with the first of them. */
export class EventFolder implements Disposable {
  readonly path: string;
  readonly #written: Set<string>;
  #file: number | undefined;

  /** @param job  its uid is in the folder's name: a name may be used again when its job was deleted */
  constructor(logFolder: string, { spec, uid }: Pick<Job, "spec" | "uid">) {
    this.path = resolve(logFolder, `${spec?.name ?? ""}-${uid.slice(0, 8)}`);
    this.#written = this.#try(() => {
      makeFolder(this.path);
      return new Set(this.#files().flatMap((file) => pointsIn(join(this.path, file))));
    });
  }

  /** False: it is there already. The point is on its way to the disk when this returns. */
  add(point: MetricsPoint): boolean {
    const key = keyOf({ step: point.step, name: point.scalars[0][0] });
    if (this.#written.has(key)) return false;
    try {
      this.#try(() => appendFileSync((this.#file ??= this.#newFile(point.time)), frameOf(pointEvent(point))));
    } catch (error) {
      this[Symbol.dispose](); // Its last event may be half there: nothing may come after it.
      throw error;
    }
    this.#written.add(key);
    return true;
  }

  #newFile(begins: Date): number {
    const last = Number(NAME.exec(this.#files().at(-1) ?? "")?.[1] ?? 0);
    const seconds = Math.max(Math.floor(Date.now() / 1000), last + 1);
    const file = openSync(join(this.path, `events.out.tfevents.${seconds}.whetstone`), "ax");
    appendFileSync(file, frameOf(versionEvent(begins)));
    return file;
  }

  #files(): string[] {
    return readdirSync(this.path)
      .filter((file) => NAME.test(file))
      .sort();
  }

  #try<T>(action: () => T): T {
    try {
      return action();
    } catch (cause) {
      const { code, message } = cause as NodeJS.ErrnoException;
      const why = code === "ENOSPC" ? "the disk is full" : (code ?? message);
      throw new CliError("EVENT_FILES", `event files cannot be written in ${this.path} (${why})`, { cause });
    }
  }

  [Symbol.dispose](): void {
    if (this.#file !== undefined) closeSync(this.#file);
    this.#file = undefined;
  }
}

function pointsIn(path: string): string[] {
  return Array.from(recordsOf(readFileSync(path)), pointOf)
    .filter((point) => point !== undefined)
    .map(keyOf);
}

function keyOf({ step, name }: { readonly step: number; readonly name: string }): string {
  return `${step} ${name}`;
}
