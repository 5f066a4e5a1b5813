// SPDX-License-Identifier: Apache-2.0
import { status, type UntypedHandleCall } from "@grpc/grpc-js";
import { type Role, roleOf } from "@whetstone/tls";
import type { DescMethod } from "@bufbuild/protobuf";
import type { PeerCertificate } from "node:tls";

/** Which roles may call a server's services: all of their methods, or those named (`submitJob`). Others get PERMISSION_DENIED. */
export type Callers = Readonly<Partial<Record<Role, true | readonly string[]>>>;

export interface AuthContext {
  readonly sslPeerCertificate?: PeerCertificate | undefined;
}

interface SecuredCall {
  getAuthContext(): AuthContext;
  emit(event: "error", error: object): boolean;
}

/** The role that the caller's certificate proves; undefined without TLS. */
export function callerOf(call: Pick<SecuredCall, "getAuthContext">): Role | undefined {
  return roleOf(call.getAuthContext().sslPeerCertificate);
}

/** The handler, for those who may call it. */
export function guard(handler: UntypedHandleCall, method: DescMethod, callers: Callers): UntypedHandleCall {
  const run = handler as (call: SecuredCall, callback?: (error: object) => void) => void;
  return ((call: SecuredCall, callback?: (error: object) => void) => {
    const caller = callerOf(call);
    const allowed = caller === undefined ? undefined : callers[caller];
    if (allowed === true || allowed?.includes(method.localName)) {
      run(call, callback);
      return;
    }
    const details = `${caller ?? "a certificate without a role"} may not call ${method.parent.typeName}/${method.name}`;
    const error = { code: status.PERMISSION_DENIED, details };
    if (callback) callback(error);
    else call.emit("error", error);
  }) as UntypedHandleCall;
}
