/** Nothing in the rooms that carry messages asks again and again; it is told. And messages have one way across. */
import t from 'tap'
import { codeLines, sourceFiles } from './source-files.ts'

interface Rule {
  pattern: RegExp
  within: RegExp
  except?: Record<string, string>
}

// file: why it may have an interval timer
const intervals: Record<string, string> = {
  'src/runtime/testing/stage.ts': 'a sign of life for who watches the thread, while a real model answers',
  'src/runtime/testing/virtual-builtins.ts': 'the virtual one, that agents under rehearsal are given',
}

// file: why its thread may stand still, and post
const downloads: Record<string, string> = {
  'src/actors/turn/run-views.ts':
    'code reads the bytes of a large part by a property, so its own thread waits for them; no other agent is in it',
}

t.test('mailbox, actors and runtime have no interval timer', async (t) => {
  t.same(found({ pattern: /\bsetInterval\b/, within: /^src\/(mailbox|actors|runtime)\//, except: intervals }), [])
})

t.test('mailbox has no timer at all', async (t) => {
  t.same(found({ pattern: /\bsetTimeout\b/, within: /^src\/mailbox\// }), [])
})

t.test('no thread is frozen in, or kept waiting on, an atomic wait', async (t) => {
  // Atomics.wait stops timers and I/O of its thread; a thread may exit in the midst of Atomics.waitAsync
  t.same(found({ pattern: /\bAtomics\s*\.\s*wait(Async)?\b/, within: /^src\//, except: downloads }), [])
})

t.test('only the two ends of a thread post, and only a bell with no more than the number of a seat', async (t) => {
  const host = 'runtime/(threads/worker-thread|verbs/tool-pool)'
  const ends = new RegExp(`^src/(${host}|actors/(thread/thread|turn/tool)-entry|tools/sandbox-thread)\\.ts$`)
  // a line of the control plane says so in a comment on it
  const bellOrControl = /postMessage\((0|seat)\)|\/\/.*control plane/
  const posts = found({ pattern: /\bpostMessage\s*\(/, within: /^src\//, except: downloads })
  t.same(
    posts.filter((post) => !ends.test(post.split(':')[0]!) || !bellOrControl.test(post)),
    [],
  )
})

/** Every place where a rule's pattern stands in code, as `file:line: text`. */
function found({ pattern, within, except = {} }: Rule): string[] {
  const files = sourceFiles.filter(({ path }) => within.test(path) && !(path in except))
  return files.flatMap((file) =>
    codeLines(file)
      .filter(({ line }) => pattern.test(line.replace(/\s\/\/.*$/, '')))
      .map(({ line, number }) => `${file.path}:${number}: ${line.trim()}`),
  )
}
