// SPDX-License-Identifier: Apache-2.0
import { isJobId, WhetstoneError } from "@whetstone/core";
import { type Nats, openKv, SERVINGS_BUCKET, type TypedKv } from "@whetstone/messaging";
import { type Serving, ServingSchema } from "@whetstone/proto/serving/v1/serving";

/** Servings in the KV bucket ws-servings, each under its name. */
export class ServingStore {
  readonly #kv: TypedKv<typeof ServingSchema>;

  private constructor(kv: TypedKv<typeof ServingSchema>) {
    this.#kv = kv;
  }

  static async open(nats: Nats): Promise<ServingStore> {
    return new ServingStore(await openKv(nats, SERVINGS_BUCKET, ServingSchema));
  }

  async find(name: string): Promise<Serving | undefined> {
    return isJobId(name) ? (await this.#kv.get(name))?.value : undefined; // Another text would be no key.
  }

  async get(name: string): Promise<Serving> {
    return (await this.find(name)) ?? missing(name);
  }

  /** By name. */
  async all(): Promise<Serving[]> {
    const names = (await this.#kv.keys()).sort();
    const records = await Promise.all(names.map((name) => this.#kv.get(name)));
    return records.flatMap((record) => record?.value ?? []);
  }

  /** @throws ALREADY_EXISTS */
  async create(serving: Serving): Promise<void> {
    await this.#kv.create(serving.name, serving);
  }

  /** By compare-and-set. The change must not depend on anything but its argument. */
  async change(name: string, apply: (serving: Serving) => void): Promise<Serving> {
    const { value } = await this.#kv.change(name, (serving) => {
      if (!serving) return missing(name);
      apply(serving);
      return serving;
    });
    return value;
  }

  async remove(name: string): Promise<void> {
    await this.#kv.delete(name);
  }
}

function missing(name: string): never {
  throw new WhetstoneError("NOT_FOUND", `nothing is served as "${name}"; \`whet servings ls\` lists what is`);
}
