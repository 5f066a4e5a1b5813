// SPDX-License-Identifier: Apache-2.0
import { once } from "node:events";
import { type AddressInfo, connect as connectTcp, createServer, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import type { TlsPeer } from "./identity.ts";

/** A port of this machine's own loopback that leads to one peer through TLS. */
export interface TlsRelay extends AsyncDisposable {
  readonly port: number;
}

/** New connections to one HTTP server, each with the newest certificate. @param peer  absent: in plain text */
export function connectionTo(url: string, peer?: TlsPeer): () => Socket {
  const { protocol, hostname, port } = new URL(url);
  const isTls = protocol === "https:";
  const target = { host: hostname.replace(/^\[|\]$/g, ""), port: Number(port || (isTls ? 443 : 80)) };
  return () => {
    const far = isTls && peer !== undefined ? openTo(target, peer) : connectTcp({ ...target, allowHalfOpen: true });
    return far.setNoDelay(true);
  };
}

function openTo(target: { host: string; port: number }, { identity, serverName }: TlsPeer): Socket {
  return connectTls({ ...target, ...identity.material, servername: serverName, ALPNProtocols: ["http/1.1"] });
}

/**
 * For programs that know no client certificates, such as an agent's OpenAI client: it speaks plain text to 127.0.0.1, and
 * leaves the pod encrypted and under this process's name.
 * @param target  where it leads now, asked for each connection
 */
export async function startRelay(target: () => { host: string; port: number }, peer: TlsPeer): Promise<TlsRelay> {
  const open = new Set<Socket>();
  const server = createServer({ noDelay: true, allowHalfOpen: true }, (near) => {
    const far = openTo(target(), peer);
    far.setNoDelay(true);
    for (const socket of [near, far]) {
      open.add(socket);
      socket.on("error", () => undefined); // Each end's close below ends the other.
      socket.once("close", () => {
        open.delete(socket);
        near.destroy();
        far.destroy();
      });
    }
    near.pipe(far).pipe(near);
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    port: (server.address() as AddressInfo).port,
    async [Symbol.asyncDispose]() {
      for (const socket of open) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
