/**
 * `dramatis/ai-sdk`: language models of the AI SDK as models of a team. No package of the AI SDK is imported here: the
 * user brings the provider packages.
 */
export { fromAiSdk } from './client.ts'
export type { AiSdkModel } from './language-model.ts'
