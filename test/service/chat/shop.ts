/** A shop whose model and tools do what they are told. */
import { z } from 'zod'
import { textOf } from '../../../src/actors/definition/content.ts'
import { createTeam, defineTeam, defineTool, type ModelMessage, type StateManagement } from '../../../src/index.ts'
import type { ModelClient } from '../../../src/models.ts'
import { silent } from '../../kit/team.ts'

const usage = { inputTokens: 1, outputTokens: 1, totalTokens: 2, calls: 1 }
const item = z.object({ what: z.string() })

/** Says what it is told: `say a b` in words, and `use TOOL WHAT` calls a tool, whose result it repeats. */
const shopModel = (pause: (word: string) => Promise<void> | undefined): ModelClient => ({
  offline: true,
  async *complete({ messages }) {
    const last = messages.at(-1)!
    const [verb, first = '', ...rest] = textOf(last.content).split(' ')
    if (last.role === 'tool') yield { text: `result: ${textOf(last.content)}` }
    else if (verb === 'use') {
      yield { text: 'Let me see. ' }
      yield { toolCall: { id: 'c1', name: first, input: JSON.stringify({ what: rest.join(' ') }) } }
    } else if (verb === 'think') {
      yield { reasoning: `about ${first}` }
      yield { text: 'thought' }
    } else
      for (const word of verb === 'recall' ? [heard(messages)] : [first, ...rest]) {
        await pause(word)
        yield { text: `${word} ` }
      }
    yield { usage }
  },
})

const heard = (messages: readonly ModelMessage[]): string =>
  messages.flatMap(({ role, content }) => (role === 'user' ? [textOf(content)] : [])).join('|')

const form = (properties: Record<string, object>) => ({ type: 'object', properties, required: Object.keys(properties) })
const STREET = form({ street: { type: 'string' } })
const FORMS: Record<string, object> = {
  parcel: form({ answer: { type: 'string' }, floor: { type: 'integer', minimum: 1 } }),
  letter: form({ box: { type: 'string', format: 'uuid' } }),
}

export interface Shop {
  state?: StateManagement | undefined
  /** What a word waits for before it is said. */
  pause?: (word: string) => Promise<void> | undefined
  /** Told of each thing that a tool does, with the key of its call. */
  does: (what: string, key: string) => void
}

/** Opens the shop. `find` asks nobody, `buy` the caller of the run, `pay` somebody else, and `ship` by a form. */
export const openShop = (shop: Shop) => createTeam(shopOf(shop))

export function shopOf({ state, pause = () => undefined, does }: Shop) {
  const tool = (name: string, approval?: true | { by: 'caller' }) =>
    defineTool({
      name,
      description: `${name}s something.`,
      input: item,
      idempotent: true,
      ...(approval && { approval }),
      run({ what }, { idempotencyKey }) {
        if (what === 'nothing') throw new Error('there is nothing')
        does(`${name} ${what}`, idempotencyKey)
        return { done: what }
      },
    })
  const ship = defineTool({
    name: 'ship',
    description: 'Ships something.',
    input: item,
    idempotent: true,
    run: async ({ what }, { ask }) => ({ shipped: what, to: await ask('Where to?', { form: FORMS[what] ?? STREET }) }),
  })
  return defineTeam({
    agents: [
      {
        name: 'shop',
        systemPrompt: 'Sell.',
        tools: [tool('find'), tool('buy', { by: 'caller' }), tool('pay', true), ship],
      },
    ],
    orchestration: { strategy: 'sequential' },
    models: { default: shopModel(pause) },
    logger: silent,
    ...(state && { stateManagement: state }),
  })
}
