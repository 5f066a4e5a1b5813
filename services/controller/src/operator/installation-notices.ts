// SPDX-License-Identifier: Apache-2.0
import { create } from "@bufbuild/protobuf";
import { type Notice, NoticeSchema } from "@whetstone/proto/trainer/v1/trainer";

type Listener = (notices: readonly Notice[]) => void;

/** What is amiss with the installation, and not with a job: said in the status of whichever runs. */
export class InstallationNotices {
  readonly #notices = new Map<string, readonly Notice[]>();
  readonly #listeners = new Set<Listener>();

  /** Replaces what the same source said before. Empty: all is well again. */
  set(source: string, notices: readonly Pick<Notice, "reason" | "message">[]): void {
    this.#notices.set(
      source,
      notices.map((notice) => create(NoticeSchema, notice)),
    );
    for (const listener of this.#listeners) listener(this.all());
  }

  all(): Notice[] {
    return [...this.#notices.values()].flat();
  }

  /** Tells what there is now, and each change, until it is disposed. */
  follow(listener: Listener): Disposable {
    this.#listeners.add(listener);
    listener(this.all());
    return { [Symbol.dispose]: () => void this.#listeners.delete(listener) };
  }
}
