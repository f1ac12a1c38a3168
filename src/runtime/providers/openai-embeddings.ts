/** Embeddings of a server that speaks OpenAI's API: each message of a request is a text, and the answer is vectors. */
import type { EmbeddingCreateParams } from 'openai/resources/embeddings'
import { z } from 'zod'
import { textOf } from '../../actors/definition/content.ts'
import type { ModelPiece } from '../../actors/definition/model.ts'
import type { Asked } from './model-errors.ts'
import { OpenAIAnswer, type OpenAIApi, usageIn } from './openai-caller.ts'
import { isRefusal, ProviderRefusal } from './refusals.ts'

const SPEAKS = 'embeddings'

const answerShape = z.object({
  data: z.array(z.object({ index: z.number(), embedding: z.array(z.number()) })),
  usage: z.unknown().optional(),
})

class EmbeddingsAnswer extends OpenAIAnswer {
  readonly #count: number
  hasEnded = false

  constructor(asked: Asked, count: number) {
    super(asked, SPEAKS)
    this.#count = count
  }

  *take(data: unknown): Generator<ModelPiece> {
    if (isRefusal(data, 'data')) throw new ProviderRefusal(data)
    const answer = answerShape.safeParse(data).data
    const vectors = answer?.data.toSorted((a, b) => a.index - b.index).map(({ embedding }) => embedding)
    if (vectors?.length !== this.#count || vectors.some(({ length }) => length === 0 || length !== vectors[0]!.length))
      throw this.wrong('answered with something else than a vector for each text', 'foreign_part')
    this.hasEnded = true
    yield { text: JSON.stringify(vectors) }
    const usage = usageIn(answer?.usage, 'prompt_tokens', 'completion_tokens')
    if (usage) yield { usage }
  }

  end(): ModelPiece[] {
    if (!this.hasEnded) throw this.wrong('answered without vectors', 'no_parts')
    return []
  }
}

export const embeddingsApi: OpenAIApi<EmbeddingCreateParams> = {
  speaks: SPEAKS,
  body: ({ model, messages, extraBody }) => ({
    model,
    input: messages.map(({ content }) => textOf(content)),
    encoding_format: 'float',
    ...extraBody,
  }),
  answer: (asked, { messages }) => new EmbeddingsAnswer(asked, messages.length),
  async create({ embeddings }, body, _isStream, settings) {
    return { response: await embeddings.create(body, settings).asResponse(), data: undefined }
  },
}
