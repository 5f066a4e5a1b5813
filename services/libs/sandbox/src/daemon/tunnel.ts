// SPDX-License-Identifier: Apache-2.0
import type { Server } from "node:http";
import { Duplex, PassThrough, Readable } from "node:stream";
import { SandboxError } from "../failure.ts";
import type { Reply } from "./connection.ts";
import type { DaemonLink } from "./daemon-link.ts";
import { type Frame, FRAMES, readFrames } from "./frames.ts";

/**
 * Takes the connections that a sandbox's commands make to a port of its loopback, one call to its daemon each: nothing has to be
 * reached from the pod or container. Ends with the link.
 * @param server  gets each connection as if it had come from a socket
 * @throws SandboxError
 */
export async function openTunnel(link: DaemonLink, port: number, server: Server, signal?: AbortSignal): Promise<void> {
  const open = { method: "PUT", path: `/tunnel?port=${port}`, signal } as const;
  const { status, body } = await link.reach(() => link.connection.call(open), signal);
  if (status !== 204) throw new SandboxError("START", `the sandbox's proxy was refused: ${status} ${body.toString()}`);
  void takeAll(link, server);
}

async function takeAll(link: DaemonLink, server: Server): Promise<void> {
  for (;;) {
    try {
      server.emit("connection", await link.reach(() => nextOf(link)));
    } catch {
      return; // Whoever uses the sandbox is told why it is over.
    }
  }
}

/** Waits for the next, for as long as the daemon says that it is there. */
async function nextOf({ connection }: DaemonLink): Promise<Duplex> {
  const sent = new PassThrough();
  const reply = await connection.open({ method: "POST", path: "/connections", body: sent });
  try {
    if (reply.status !== 200) throw new SandboxError("START", `the sandbox's daemon answered ${reply.status}`);
    const frames = readFrames(reply);
    const first = await nextData(frames);
    if (first === undefined) throw new Error("a command connected and sent nothing");
    const readable = Readable.from(received(reply, frames, first), { objectMode: false });
    return Duplex.from({ readable, writable: sent });
  } catch (error) {
    reply.destroy();
    sent.destroy();
    throw error;
  }
}

async function* received(reply: Reply, frames: AsyncIterator<Frame>, first: Buffer): AsyncGenerator<Buffer> {
  try {
    for (let data: Buffer | undefined = first; data !== undefined; data = await nextData(frames)) yield data;
  } finally {
    reply.destroy();
  }
}

/** Undefined: the command sends no more. @throws where the stream ends without saying so */
async function nextData(frames: AsyncIterator<Frame>): Promise<Buffer | undefined> {
  for (;;) {
    const { value } = (await frames.next()) as IteratorResult<Frame, undefined>;
    if (value === undefined) throw new Error("the sandbox's answer ended before the connection did");
    if (value.kind === FRAMES.end) return undefined;
    if (value.kind === FRAMES.stdout) return value.data;
  }
}
