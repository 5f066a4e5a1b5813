// SPDX-License-Identifier: Apache-2.0
// A real object store over a folder: versitygw, which deploy/local/setup-object-store.sh builds from its Go module, once.
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { mkdirSync } from "node:fs";
import { connect } from "node:net";
import { join } from "node:path";
import { freePort } from "./free-port.ts";
import { waitFor } from "./wait-for.ts";

const SETUP = join(import.meta.dirname, "../../../../deploy/local/setup-object-store.sh");
const KEYS = { AWS_ACCESS_KEY_ID: "owner", AWS_SECRET_ACCESS_KEY: "owner's secret" };
const READY_MS = 20_000;

export interface ObjectStoreServer extends Disposable {
  /** As `--object-store` wants it. */
  readonly url: string;
  /** What a process that uses it has in its environment. */
  readonly environment: Readonly<Record<string, string>>;
  /** Where the bytes of an object lie. */
  file(name: string): string;
  /** As a machine that is gone; `start` brings it back at the same port. */
  stop(): void;
  start(): Promise<void>;
}

/** The program, or why there is none. */
export function objectStoreProgram(): { readonly program: string } | { readonly missing: string } {
  const { status, stdout, stderr } = spawnSync(SETUP, { encoding: "utf8" });
  return status === 0 ? { program: stdout.trim() } : { missing: stderr.trim() };
}

/** @param root  a folder for the objects, in a file system with extended attributes */
export async function startObjectStore(program: string, root: string): Promise<ObjectStoreServer> {
  mkdirSync(join(root, "bucket"), { recursive: true });
  const port = await freePort();
  const { AWS_ACCESS_KEY_ID: access, AWS_SECRET_ACCESS_KEY: secret } = KEYS;
  const args = ["--quiet", "--port", `127.0.0.1:${port}`, "--access", access, "--secret", secret, "posix", root];
  let child: ChildProcess | undefined;
  const stop = (): void => {
    child?.kill("SIGKILL");
    child = undefined;
  };
  const start = async (): Promise<void> => {
    child = spawn(program, args, { stdio: "ignore" });
    await waitFor(() => answers(port), { timeoutMs: READY_MS, intervalMs: 20, what: "the object store" });
  };
  await start();
  return {
    url: "s3://bucket/team",
    environment: { AWS_ENDPOINT_URL_S3: `http://127.0.0.1:${port}`, ...KEYS },
    file: (name) => join(root, "bucket/team", name),
    stop,
    start,
    [Symbol.dispose]: stop,
  };
}

function answers(port: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const socket = connect(port, "127.0.0.1", () => {
    socket.destroy();
    resolve(true);
  }).once("error", () => resolve(false));
  return promise;
}
