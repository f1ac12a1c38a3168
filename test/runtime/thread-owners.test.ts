/** Owners of threads: how many are kept, and which go first. */
import t from 'tap'
import { NO_CONVERSATION } from '../../src/actors/model/conversation.ts'
import { Conversations } from '../../src/runtime/host/parts.ts'

t.test(
  'the owner of a thread that was not used for long goes with its conversations, and not while it is in use',
  (t) => {
    const conversations = new Conversations(undefined, (threadId) => threadId === 'in use')
    const { owners } = conversations
    for (const threadId of ['in use', 'old', 'used again']) {
      t.equal(owners.begin(threadId, 'ann'), 'ann')
      conversations.keep(1, threadId, NO_CONVERSATION)
    }
    const begin = (from: number, to: number) => {
      for (let nth = from; nth < to; nth += 1) owners.begin(`thread ${nth}`, 'bob')
    }
    begin(0, 5_000)
    t.equal(owners.begin('used again', 'bob'), 'ann')
    begin(5_000, 10_000)
    t.same(
      Array.from(conversations.all(), ({ threadId }) => threadId),
      ['in use', 'used again'],
    )
    t.equal([...owners.all()].length, 10_000)
    t.equal(owners.begin('old', 'bob'), 'bob', 'nothing is left of it')
    t.equal(owners.begin('in use', 'bob'), 'ann')
    t.end()
  },
)

t.test('a conversation of a thread that nobody has begun makes it nobody’s', (t) => {
  const conversations = new Conversations()
  conversations.keep(1, 'talk', NO_CONVERSATION)
  t.equal(conversations.owners.begin('talk', 'ann'), null)
  t.end()
})
