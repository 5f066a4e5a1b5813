// SPDX-License-Identifier: Apache-2.0
import type { Server } from "node:http";
import type { Server as TlsServer, TlsOptions, TLSSocket } from "node:tls";
import { type Role, roleOf, type TlsIdentity } from "@whetstone/tls";

/** How a listener proves who it is, and whom it lets in. */
export interface Secured {
  /** With the newest certificate. */
  options(): TlsOptions;
  /** Called once, before the server listens. */
  watch(server: { readonly server: Server }): void;
}

/** Whoever proves one of these roles. A caller without a certificate of our authority gets no connection. */
export function rolesOnly(tls: TlsIdentity, callers: readonly Role[]): Secured {
  const options = (): TlsOptions => ({ ...base(tls), requestCert: true, rejectUnauthorized: true });
  return {
    options,
    watch({ server }) {
      server.on("secureConnection", (socket: TLSSocket) => {
        const role = roleOf(socket.getPeerCertificate());
        if (role === undefined || !callers.includes(role)) socket.destroy();
      });
      renew(server, tls, options);
    },
  };
}

/** Anybody: only the server proves who it is. */
export function serverOnly(tls: TlsIdentity): Secured {
  const options = (): TlsOptions => ({ ...base(tls), requestCert: false });
  return {
    options,
    watch({ server }) {
      renew(server, tls, options);
    },
  };
}

function base({ material }: TlsIdentity): TlsOptions {
  return { ...material, ALPNProtocols: ["http/1.1"] };
}

/** New connections use the newest certificate, open ones stay. */
function renew(server: Server, tls: TlsIdentity, options: () => TlsOptions): void {
  const secured = server as unknown as TlsServer;
  const end = tls.onChange(() => {
    secured.setSecureContext(options());
  });
  secured.once("close", end);
}
