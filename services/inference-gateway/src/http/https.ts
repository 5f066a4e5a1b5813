// SPDX-License-Identifier: Apache-2.0
import type { Server } from "node:http";
import type { Server as TlsServer, TlsOptions, TLSSocket } from "node:tls";
import { type Role, roleOf, type TlsIdentity } from "@whetstone/tls";

/** A caller without a certificate of our authority gets no connection. */
export function httpsOptions({ material }: Pick<TlsIdentity, "material">): TlsOptions {
  return { ...material, requestCert: true, rejectUnauthorized: true, ALPNProtocols: ["http/1.1"] };
}

/** Connections of these roles only, each asked once. New ones use the newest certificate, open ones stay. */
export function admit({ server }: { readonly server: Server }, tls: TlsIdentity, callers: readonly Role[]): void {
  const secured = server as unknown as TlsServer;
  secured.on("secureConnection", (socket: TLSSocket) => {
    const role = roleOf(socket.getPeerCertificate());
    if (role === undefined || !callers.includes(role)) socket.destroy();
  });
  const end = tls.onChange((material) => {
    secured.setSecureContext(httpsOptions({ material }));
  });
  secured.once("close", end);
}
