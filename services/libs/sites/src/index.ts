// SPDX-License-Identifier: Apache-2.0
export { OwnSiteTask } from "./own-site-task.ts";
export { SITES } from "./sites.ts";
