import t from 'tap'
import type { Cell, Life } from '../../src/runtime/host/agent.ts'
import { listen } from '../../src/runtime/supervision/pending-life.ts'
import { AgentCrashedError } from '../../src/shared/errors.ts'

t.test('a thread is ended once for its posts, and those that come after that cost nothing', async (t) => {
  const warned: unknown[] = []
  const ends: unknown[] = []
  let post = () => {}
  const warn = (fields: unknown) => void warned.push(fields)
  const logger = { debug: warn, info: warn, warn, error: warn }
  const onForeignPost = (listener: () => void) => {
    post = listener
  }
  const thread = { onPrint: () => {}, onForeignPost }
  const life = { thread, kill: (why: unknown) => void ends.push(why) } as unknown as Life
  listen(logger, { name: 'mallory' } as Cell, life)

  for (let posts = 0; posts < 2_000; posts++) post()
  t.same(ends, [])
  t.ok(warned.length > 0)
  const warnings = warned.length
  for (let posts = 0; posts < 30_000; posts++) post()
  t.equal(ends.length, 1)
  t.ok(ends[0] instanceof AgentCrashedError)
  t.equal(warned.length, warnings)
})
