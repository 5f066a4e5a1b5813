// SPDX-License-Identifier: Apache-2.0
import { createHash } from "node:crypto";
import { WhetstoneError } from "@whetstone/core";

// A body above CLAIM_BYTES is put elsewhere before its message is published; the message is then empty, and its header
// `Whetstone-Claim` holds JSON {"name","sha256","size"}, and "store" where the body is in an object store. Names hold the
// digest, so a repeated publish writes the same object. The reader checks size and digest: a wrong body is DATA_LOSS, never a
// wrong message.

export const CLAIM_HEADER = "Whetstone-Claim";
export const CLAIM_BYTES = 512 * 1024;

export interface Claim {
  /** In NATS `<job>/<sha256>`; in a store `episodes/<installation>/<job>/<sha256>`. */
  readonly name: string;
  /** Lower-case hex, of the whole body. */
  readonly sha256: string;
  readonly size: number;
  /** "s3://bucket/prefix"; absent: NATS' own bucket. */
  readonly store?: string;
}

export function sha256Hex(bytes: Uint8Array): string {
  return createHash("sha256").update(bytes).digest("hex");
}

export function encodeClaim(claim: Claim): string {
  return JSON.stringify(claim);
}

export function decodeClaim(header: string): Claim {
  try {
    const { name, sha256, size, store } = JSON.parse(header) as Claim;
    const isClaim = typeof name === "string" && typeof sha256 === "string" && Number.isSafeInteger(size);
    if (isClaim && store === undefined) return { name, sha256, size };
    if (isClaim && typeof store === "string") return { name, sha256, size, store };
  } catch {
    // Refused below, like any other text that is not a claim.
  }
  throw new WhetstoneError("CONTRACT_VIOLATION", `header ${CLAIM_HEADER} is not a claim: ${header.slice(0, 200)}`);
}

/** What was found, if it is what was published. @throws DATA_LOSS */
export function verified(claim: Claim, body: Uint8Array | null | undefined): Uint8Array {
  const where = claim.store === undefined ? `claim ${claim.name}` : `claim ${claim.store}/${claim.name}`;
  if (!body) {
    throw new WhetstoneError("DATA_LOSS", `${where} is not in the object store`, { context: { ...claim } });
  }
  const found = { sha256: sha256Hex(body), size: body.length };
  if (found.sha256 !== claim.sha256 || found.size !== claim.size) {
    throw new WhetstoneError("DATA_LOSS", `${where} holds another body than was published`, {
      context: { claim, found },
    });
  }
  return body;
}
