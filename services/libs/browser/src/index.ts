// SPDX-License-Identifier: Apache-2.0
export { ACTION_SUBSETS, DEFAULT_SUBSETS } from "./actions/action.ts";
export { BrowserEnvironment, type BrowserEnvironmentOptions } from "./browser-environment.ts";
export type { ChromiumOptions } from "./chromium/chromium.ts";
export { findChromium, HOW_TO_INSTALL } from "./chromium/executable.ts";
export { ACTION_FORMS } from "./episode/forms.ts";
export { Miniwob } from "./miniwob/miniwob.ts";
export { BrowserPool, type BrowserPoolOptions } from "./pool/browser-pool.ts";
export { targetOf } from "./pool/requests.ts";
export type { Site, SiteAnswer, SiteRequest } from "./pool/site.ts";
export { browserTask } from "./task/browser-task.ts";
export { checkSite, siteTask } from "./task/site-task.ts";
export type { Judgement } from "@whetstone/sdk";
export type { SetupOptions, WebState, WebTask } from "./task/web-task.ts";
