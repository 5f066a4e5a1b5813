// SPDX-License-Identifier: Apache-2.0
import type { ExternalModel } from "@whetstone/proto/types/v1/types";
import { ChatClient, createChatPool, EpisodeError, type RolloutClient } from "@whetstone/sdk";

type ChatPool = ReturnType<typeof createChatPool>;

/** Clients of models that are not the job's policy, over one pool a server. Their calls are not recorded: no step names them. */
export class ExternalModels implements AsyncDisposable {
  readonly #env: NodeJS.ProcessEnv;
  readonly #connect: Parameters<typeof createChatPool>[2];
  readonly #pools = new Map<string, ChatPool>();

  /** @param connect  how servers are reached; absent: directly */
  constructor(env: NodeJS.ProcessEnv = process.env, connect?: Parameters<typeof createChatPool>[2]) {
    this.#env = env;
    this.#connect = connect;
  }

  client({ baseUrl, model, apiKeyEnv }: ExternalModel): RolloutClient {
    const apiKey = apiKeyEnv === "" ? undefined : this.#env[apiKeyEnv];
    if (apiKeyEnv !== "" && !apiKey) {
      throw new EpisodeError("TASK", `roles.model.api_key_env: the orchestrator has no variable ${apiKeyEnv}`);
    }
    const chat = new ChatClient({ baseUrl, model, apiKey, pool: this.#poolOf(baseUrl) });
    return { chat: async (messages, options) => ({ ...(await chat.chat(messages, options)), callId: "" }) };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([...this.#pools.values()].map((pool) => pool.destroy()));
  }

  #poolOf(baseUrl: string): ChatPool {
    const { origin } = new URL(baseUrl);
    const known = this.#pools.get(origin);
    if (known) return known;
    const pool = createChatPool(origin, undefined, this.#connect);
    this.#pools.set(origin, pool);
    return pool;
  }
}
