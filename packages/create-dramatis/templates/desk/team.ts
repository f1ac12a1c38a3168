import { join } from 'node:path'
import { defineTeam } from 'dramatis'
import { findOrder, refundInto } from './shop.js'

/** The desk with its log and its ledger in that folder. */
export const desk = (folder = process.env.DATA ?? 'data') =>
  defineTeam({
    agents: [
      {
        name: 'clerk',
        systemPrompt:
          'You answer customers of a shop. Refund an order only when its number was said, and find it first.',
        tools: [findOrder, refundInto(folder)],
      },
    ],
    orchestration: { strategy: 'sequential' },
    stateManagement: { path: join(folder, 'log') },
    ...(!process.env.OPENAI_API_KEY && {
      models: {
        // Rules answer in the place of a model until there is a key. Delete them then.
        default: {
          offline: true,
          async *complete({ messages }) {
            const last = messages.at(-1)
            const content = String(last?.content)
            const order = /\b[AB]-\d+\b/.exec(content)?.[0]
            if (last?.role === 'tool' && content.startsWith('{'))
              yield { toolCall: { id: 'refund-1', name: 'refund', input: content } }
            else if (last?.role === 'tool' && /A person did not agree/.test(content))
              yield { text: 'I am sorry: the staff has said no to this refund.' }
            else if (last?.role === 'tool') yield { text: content }
            else if (order) yield { toolCall: { id: 'find-1', name: 'find_order', input: JSON.stringify({ order }) } }
            else yield { text: 'Which order is it about? Tell me its number.' }
          },
        },
      },
    }),
  })

export default desk()
