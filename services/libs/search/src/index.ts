// SPDX-License-Identifier: Apache-2.0
export { SearchAgent, type SearchAgentOptions } from "./episode/search-agent.ts";
export type { FormatWeights } from "./episode/search-reward.ts";
export type { SearchEnvironmentOptions } from "./episode/settings.ts";
export { TagSearchEnvironment } from "./episode/tag-search.ts";
export { ToolSearchEnvironment } from "./episode/tool-search.ts";
export type { Bm25Options } from "./index/bm25.ts";
export type { CorpusIndex, SearchOptions } from "./index/corpus-index.ts";
export { IndexStore, type IndexStoreOptions } from "./index/index-store.ts";
export { makeSearchTasks, type MadeSearchTasks, type SearchTaskOptions } from "./questions/make-search-tasks.ts";
export { inventedNames } from "./questions/world.ts";
export { RetrieveServer, type RetrieveServerOptions } from "./retrieve-server.ts";
