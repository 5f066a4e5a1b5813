// SPDX-License-Identifier: Apache-2.0
export { OpenEnvEnvironment, type OpenEnvOptions } from "./openenv-environment.ts";
export { type OpenEnvServer, type OpenEnvServerOptions, startOpenEnvServer } from "./server.ts";
