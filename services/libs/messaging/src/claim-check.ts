// SPDX-License-Identifier: Apache-2.0
import { createHash } from "node:crypto";
import type { NatsConnection } from "@nats-io/nats-core";
import { type ObjectStore, Objm } from "@nats-io/obj";
import { raceSignal, WhetstoneError } from "@whetstone/core";
import { natsError } from "./nats-errors.ts";
import { CLAIMS_BUCKET } from "./topology.ts";

// A body above CLAIM_BYTES goes to the object store before its message is published; the message is then empty, and its
// header `Whetstone-Claim` holds JSON {"name","sha256","size"}. Names hold the digest, so a repeated publish writes the same
// object. The reader checks size and digest: a wrong body is DATA_LOSS, never a wrong message.

export const CLAIM_HEADER = "Whetstone-Claim";
export const CLAIM_BYTES = 512 * 1024;

export interface Claim {
  /** `<job>/<sha256>`. */
  readonly name: string;
  /** Lower-case hex, of the whole body. */
  readonly sha256: string;
  readonly size: number;
}

export interface ClaimStore {
  put(job: string, body: Uint8Array, signal?: AbortSignal): Promise<Claim>;
  get(claim: Claim, signal?: AbortSignal): Promise<Uint8Array>;
}

export function sha256Hex(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

/** The store is opened at the first use; `ensurePlatform` must have made it. */
export function openClaimStore(connection: NatsConnection): ClaimStore {
  let opened: Promise<ObjectStore> | undefined;
  const store = (): Promise<ObjectStore> => {
    opened ??= new Objm(connection).open(CLAIMS_BUCKET).catch((error: unknown) => {
      opened = undefined;
      throw natsError(error, `open object store ${CLAIMS_BUCKET}`);
    });
    return opened;
  };
  return {
    async put(job, body, signal) {
      const sha256 = sha256Hex(body);
      const claim = { name: `${job}/${sha256}`, sha256, size: body.length };
      await raceSignal(
        store().then((s) => s.putBlob({ name: claim.name }, body)),
        signal,
      );
      return claim;
    },
    async get(claim, signal) {
      const body = await raceSignal(
        store().then((s) => s.getBlob(claim.name)),
        signal,
      );
      return verified(claim, body);
    },
  };
}

function verified(claim: Claim, body: Uint8Array | null): Uint8Array {
  if (body === null) {
    throw new WhetstoneError("DATA_LOSS", `claim ${claim.name} is not in the object store`, { context: { ...claim } });
  }
  const found = { sha256: sha256Hex(body), size: body.length };
  if (found.sha256 !== claim.sha256 || found.size !== claim.size) {
    throw new WhetstoneError("DATA_LOSS", `claim ${claim.name} holds another body than was published`, {
      context: { claim, found },
    });
  }
  return body;
}

export function encodeClaim(claim: Claim): string {
  return JSON.stringify(claim);
}

export function decodeClaim(header: string): Claim {
  try {
    const { name, sha256, size } = JSON.parse(header) as Claim;
    if (typeof name === "string" && typeof sha256 === "string" && Number.isSafeInteger(size))
      return { name, sha256, size };
  } catch {
    // Refused below, like any other text that is not a claim.
  }
  throw new WhetstoneError("CONTRACT_VIOLATION", `header ${CLAIM_HEADER} is not a claim: ${header.slice(0, 200)}`);
}
