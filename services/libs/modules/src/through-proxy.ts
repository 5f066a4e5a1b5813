// SPDX-License-Identifier: Apache-2.0
import { request } from "node:http";
import type { Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { WhetstoneError } from "@whetstone/core";
import { socketOf } from "./forward-sockets.ts";

export interface Target {
  readonly protocol: string;
  readonly hostname: string;
  readonly port: string;
}

type Connected = (...outcome: [null, Socket] | [Error, null]) => void;

const CONNECT_MS = 10_000;

/** Connects from inside a sandbox, through the proxy, as undici's clients want it. */
export function connectThroughProxy({ protocol, hostname, port }: Target, callback: Connected): void {
  const isTls = protocol === "https:";
  const path = `${hostname}:${port || (isTls ? 443 : 80)}`;
  const asking = request({ socketPath: socketOf("proxy"), method: "CONNECT", path, timeout: CONNECT_MS });
  asking.once("connect", ({ statusCode }, socket: Socket) => {
    if (statusCode !== 200) {
      socket.destroy();
      callback(new WhetstoneError("FAILED_PRECONDITION", `${path} is not reached from the job's sandbox`), null);
    } else if (isTls) {
      const secure = connectTls({ socket, servername: hostname, ALPNProtocols: ["http/1.1"] });
      secure.once("secureConnect", () => {
        callback(null, secure);
      });
      secure.once("error", (error: Error) => {
        callback(error, null);
      });
    } else callback(null, socket);
  });
  asking.once("timeout", () => asking.destroy(new WhetstoneError("UNAVAILABLE", `${path} does not answer`)));
  asking.once("error", (error: Error) => {
    callback(error, null);
  });
  asking.end();
}
