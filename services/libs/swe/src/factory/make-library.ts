// SPDX-License-Identifier: Apache-2.0
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { WhetstoneError } from "@whetstone/core";
import type { SandboxBackend } from "@whetstone/sandbox";
import { folderNameOf, type LibraryPin, type LibraryRecord, RECORD_FILE, STATE_FILE } from "../library.ts";
import { prepareState } from "../library-store.ts";
import { Planter } from "./planter.ts";

export interface StateSummary {
  /** One sentence, of the library's metadata. */
  readonly summary: string;
  /** Paths of the pin that its source package does not have. */
  readonly missing: readonly string[];
}

export interface LibrarySources {
  /** Writes the state's archive, from packages whose digests were checked. */
  readonly writeState: (pin: LibraryPin, archive: string) => Promise<StateSummary>;
}

/** Makes the folder of a library: what its sandboxes begin with, and which of its tests can be relied on. */
export async function makeLibrary(
  pin: LibraryPin,
  { folder, sources, backend }: { folder: string; sources: LibrarySources; backend: SandboxBackend },
): Promise<LibraryRecord> {
  const own = join(folder, folderNameOf(pin));
  await mkdir(own, { recursive: true });
  const archive = join(own, STATE_FILE);
  const { summary, missing } = await sources.writeState(pin, archive);
  if (missing.length > 0) throw unfit(pin, `its source package has no ${missing.join(", ")}`);
  const { state } = await prepareState(backend, archive, pin.suite);
  await using _state = state;
  if (pin.suite.language !== "javascript") await checkAbsence(pin, backend);
  await using planter = await Planter.start(backend, state, pin.suite);
  const { stable, seconds, unfinished, failing, tests } = await planter.baseline(pin.suite);
  if (unfinished > 0) throw unfit(pin, `its tests did not come to their end in ${unfinished} runs`);
  if (stable.length === 0) throw unfit(pin, `none of its ${tests} tests passes each time: ${JSON.stringify(failing)}`);
  const record = { ...pin, summary, stable, seconds: Math.ceil(seconds * 10) / 10 };
  await writeFile(join(own, RECORD_FILE), `${JSON.stringify(record, null, 1)}\n`);
  return record;
}

/** A copy among the system's Python packages would be the answer of every task. */
async function checkAbsence(pin: LibraryPin, backend: SandboxBackend): Promise<void> {
  await using sandbox = await backend.open();
  const names = pin.suite.packages.map((path) => path.split("/").at(-1)?.replace(/\.py$/u, ""));
  const program = `import importlib.util, sys; print([n for n in sys.argv[1:] if importlib.util.find_spec(n)])`;
  const { stdout } = await sandbox.exec(["python3", "-c", program, ...names.map(String)]).result;
  if (stdout.trim() !== "[]") throw unfit(pin, `the system's Python has it too: ${stdout.trim()}`);
}

function unfit(pin: LibraryPin, why: string): WhetstoneError {
  return new WhetstoneError("FAILED_PRECONDITION", `${folderNameOf(pin)} cannot be used: ${why}`);
}
