// SPDX-License-Identifier: Apache-2.0
import { followStoreTroubles, type Nats, type StoreTrouble } from "@whetstone/messaging";
import { type Notice, NoticeSchema } from "@whetstone/proto/trainer/v1/trainer";
import { create } from "@bufbuild/protobuf";

/** An orchestrator tries again within 35 s and says so: one that is silent for longer has gone, or has nothing to put. */
const SILENT_MS = 45_000;

/** Tells why bodies of episodes do not get into the object store; nothing once they do. */
export class StoreWatch implements Disposable {
  readonly #onNotices: (notices: readonly Notice[]) => void;
  readonly #following: Disposable;
  #silence: NodeJS.Timeout | undefined;

  constructor(nats: Nats, onNotices: (notices: readonly Notice[]) => void) {
    this.#onNotices = onNotices;
    this.#following = followStoreTroubles(nats, (trouble) => this.#hear(trouble));
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#silence);
    this.#following[Symbol.dispose]();
  }

  #hear(trouble: StoreTrouble): void {
    clearTimeout(this.#silence);
    this.#onNotices(trouble.message === "" ? [] : [noticeOf(trouble)]);
    if (trouble.message !== "") this.#silence = setTimeout(() => this.#onNotices([]), SILENT_MS).unref();
  }
}

function noticeOf({ isFull, message }: StoreTrouble): Notice {
  const words = `${message[0]?.toUpperCase()}${message.slice(1)}.`;
  return create(
    NoticeSchema,
    isFull
      ? { reason: "ObjectStoreFull", message: `${words} Free some; episodes wait for it.` }
      : { reason: "ObjectStoreFailing", message: `${words} It is asked again; episodes wait for it.` },
  );
}
