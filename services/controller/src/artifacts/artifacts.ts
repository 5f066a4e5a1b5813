// SPDX-License-Identifier: Apache-2.0
import { readdir, rm } from "node:fs/promises";
import { ARTIFACT_KINDS, type ArtifactKindName, artifactNameFault, ConfigError, WhetstoneError } from "@whetstone/core";
import { ArtifactLayout, type Manifest, type NameRecord, readJson, writeJson } from "./layout.ts";
import { isAbandoned, Pushes } from "./pushes.ts";

/** As many names a kind may have. */
const MAX_NAMES = 1_000;

export interface Removed {
  readonly digest: string;
  readonly freed: number;
  /** Jobs that keep the files. */
  readonly jobs: readonly string[];
}

/** Names of the jobs that name each digest. */
export type JobsByDigest = () => Promise<ReadonlyMap<string, readonly string[]>>;

/** What was pushed: names that have a digest, and the files of each digest. */
export class Artifacts {
  readonly layout: ArtifactLayout;
  readonly pushes: Pushes;
  readonly #jobsByDigest: JobsByDigest;

  constructor(dataPath: string, jobsByDigest: JobsByDigest) {
    this.layout = new ArtifactLayout(dataPath);
    this.pushes = new Pushes(this.layout);
    this.#jobsByDigest = jobsByDigest;
  }

  manifest(digest: string): Promise<Manifest | undefined> {
    return this.layout.manifest(this.layout.content(digest));
  }

  /** @throws ConfigError for a text that is no name: it would be no file of ours either */
  async find(kind: ArtifactKindName, name: string): Promise<NameRecord | undefined> {
    const fault = artifactNameFault(name);
    if (fault !== undefined) throw new ConfigError([{ path: "name", reason: fault }]);
    return readJson<NameRecord>(this.layout.name(kind, name));
  }

  async get(kind: ArtifactKindName, name: string): Promise<NameRecord> {
    const found = await this.find(kind, name);
    if (found) return found;
    throw new WhetstoneError("NOT_FOUND", await this.whatThereIs(kind, name));
  }

  async whatThereIs(kind: ArtifactKindName, name: string): Promise<string> {
    const names = await this.names(kind);
    const shown = names.length > 10 ? [...names.slice(0, 10), "…"] : names;
    return `"${name}" was not pushed to ${kind}; there are: ${shown.join(", ") || "none"} (\`whet ${kind} push\`)`;
  }

  async names(kind: ArtifactKindName): Promise<string[]> {
    const files = await readdir(this.layout.names(kind)).catch((): string[] => []);
    return files
      .filter((file) => file.endsWith(".json"))
      .map((file) => file.slice(0, -".json".length))
      .toSorted();
  }

  /** @throws ALREADY_EXISTS when the name has another digest and may not be moved */
  async checkName(kind: ArtifactKindName, name: string, digest: string, replace: boolean): Promise<void> {
    const found = await this.find(kind, name);
    if (found && found.digest !== digest && !replace) throw taken(kind, name);
    if (!found && (await this.names(kind)).length >= MAX_NAMES)
      throw new WhetstoneError("RESOURCE_EXHAUSTED", `there are ${MAX_NAMES} ${kind} already: remove some with \`rm\``);
  }

  /**
   * Gives the name to the digest; its former files go unless something else has them.
   * @throws ALREADY_EXISTS as `checkName` does, also when somebody else was faster; then these files go
   */
  async setName(kind: ArtifactKindName, name: string, digest: string, replace: boolean): Promise<void> {
    const record: NameRecord = { digest, createdAt: new Date().toISOString() };
    const former = await this.find(kind, name);
    if (former?.digest === digest) return;
    const isSet = await writeJson(this.layout.name(kind, name), record, replace);
    const unused = isSet ? former?.digest : digest;
    if (unused !== undefined) await this.collect(unused);
    if (!isSet && (await this.find(kind, name))?.digest !== digest) throw taken(kind, name);
  }

  async remove(kind: ArtifactKindName, name: string): Promise<Removed> {
    const { digest } = await this.get(kind, name);
    await rm(this.layout.name(kind, name), { force: true });
    return { digest, ...(await this.collect(digest)) };
  }

  /** Deletes the files of a digest that no name has and no job. */
  async collect(digest: string): Promise<Pick<Removed, "freed" | "jobs">> {
    const manifest = await this.manifest(digest);
    if (!manifest || (await this.#named()).has(digest)) return { freed: 0, jobs: [] };
    const jobs = (await this.#jobsByDigest()).get(digest) ?? [];
    if (jobs.length > 0) return { freed: 0, jobs };
    await this.layout.discard(this.layout.content(digest));
    return { freed: manifest.files.reduce((sum, { size }) => sum + size, 0), jobs };
  }

  /** Deletes old files that nothing has: somebody was killed before he named them, or their job was deleted with kubectl. */
  async sweep(): Promise<void> {
    const unused = new Set(await readdir(this.layout.contents()).catch((): string[] => []));
    for (const digest of await this.#named()) unused.delete(digest);
    if (unused.size === 0) return;
    for (const digest of (await this.#jobsByDigest()).keys()) unused.delete(digest);
    for (const digest of unused) {
      const folder = this.layout.content(digest);
      if (await isAbandoned(folder)) await this.layout.discard(folder);
    }
  }

  /** Digests that have a name. */
  async #named(): Promise<Set<string>> {
    const digests = new Set<string>();
    for (const kind of ARTIFACT_KINDS)
      for (const name of await this.names(kind)) {
        const found = await this.find(kind, name);
        if (found) digests.add(found.digest);
      }
    return digests;
  }
}

function taken(kind: ArtifactKindName, name: string): WhetstoneError {
  const advice = "give it the new files with --replace";
  return new WhetstoneError("ALREADY_EXISTS", `${kind} has another "${name}"; ${advice}`, { retry: "never" });
}
