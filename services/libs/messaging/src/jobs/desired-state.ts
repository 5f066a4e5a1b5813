// SPDX-License-Identifier: Apache-2.0
import { create, type MessageInitShape } from "@bufbuild/protobuf";
import { type DesiredState, DesiredStateSchema, JobPhase, Requester } from "@whetstone/proto/jobs/v1/jobs";

const CANCELLED = { outcome: JobPhase.CANCELLED, reason: "CancelledByUser", message: "" };

/** Every desired state there is. Whoever asks for one takes it from here, so that it is said in the same words. */
export const DESIRED = {
  run: () => make({ case: "run", value: {} }),
  suspendByUser: () =>
    make({
      case: "suspend",
      value: { by: Requester.USER, reason: "SuspendedByUser", message: "Resume it with `whet jobs resume`." },
    }),
  /** @param reason  what it has to wait for, one word */
  suspendByController: (reason: string) =>
    make({
      case: "suspend",
      value: { by: Requester.CONTROLLER, reason, message: "It goes on by itself." },
    }),
  cancelByUser: () => make({ case: "end", value: { by: Requester.USER, ...CANCELLED } }),
  cancelByDeletion: () => make({ case: "end", value: { by: Requester.DELETION, ...CANCELLED } }),
  /** @param reason  one word */
  failByController: (reason: string, message: string) =>
    make({ case: "end", value: { by: Requester.CONTROLLER, outcome: JobPhase.FAILED, reason, message } }),
} as const;

type Init = MessageInitShape<typeof DesiredStateSchema>;
function make(desired: NonNullable<Init["desired"]>): DesiredState {
  return create(DesiredStateSchema, { desired });
}

/** An end is never revoked; only a deletion goes further. */
export function mayReplace(former: DesiredState | undefined, next: DesiredState): boolean {
  const { case: kind, value } = next.desired;
  return former?.desired.case !== "end" || (kind === "end" && value.by === Requester.DELETION);
}

/** Its user wants it to run, though it may have to wait. */
export function isWanted(state: DesiredState | undefined): boolean {
  const desired = state?.desired;
  return desired?.case === "suspend" ? desired.value.by !== Requester.USER : desired?.case !== "end";
}

/** Why the controller suspends it, one word. Empty: it does not. */
export function waitsFor(state: DesiredState | undefined): string {
  const desired = state?.desired;
  return desired?.case === "suspend" && desired.value.by === Requester.CONTROLLER ? desired.value.reason : "";
}
