/** `dramatis/http`: teams over HTTP. */
export { type HttpApi, httpApi } from './api.ts'
export { bearerToken } from './bearer-token.ts'
export type { Authorize, Caller, HttpApiOptions, HttpLimits, OnDisconnect, Right } from './options.ts'
export type { ModelPrice } from './prices.ts'
export type { Cost, Problem, Task, TaskQuestion, TaskRequest, TaskSummary } from './schemas.ts'
