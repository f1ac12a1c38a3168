/** Models of the AI SDK are models of a team, and need no package of it for their types. */
import { createTeam } from 'dramatis'
import { type AiSdkModel, fromAiSdk } from 'dramatis/ai-sdk'

export const team = (model: AiSdkModel) =>
  createTeam({
    agents: [{ name: 'ann', systemPrompt: 'Be brief.', promptCaching: true }],
    orchestration: { strategy: 'sequential' },
    models: {
      default: fromAiSdk(model),
      careful: { client: fromAiSdk(model), maxConcurrent: 4, secrets: ['key'], seed: 7 },
    },
  })

// @ts-expect-error the name of a model is none
fromAiSdk('anthropic/claude-sonnet-4-5')
