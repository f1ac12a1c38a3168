/** Each failure that docs/explanation/failures.md has a row for, as its command shows it. */
import t from 'tap'
import { read } from '../docs/page.ts'
import { dramatis } from '../service/command-line.ts'

/** What the user sees of each. */
const shown: Record<string, { code: number; stdout: string | RegExp; stderr: RegExp[] }> = {
  crash: { code: 0, stdout: 'done, in attempt 2\n', stderr: [/^worker crashed: .*; restarts at once$/m] },
  deadlock: {
    code: 0,
    stdout: /^(less than )?10\n$/,
    stderr: [/^deadlock: ann -> bob$/m, /^deadlock: ann -> bob; (ann|bob) gives way$/m],
  },
  livelock: {
    code: 1,
    stdout: '',
    stderr: [
      /^livelock: "manager" asked "worker" the same 4 times/m,
      /^warn worker No progress: /m,
      /^error: LIVELOCK: /m,
    ],
  },
  silence: {
    code: 1,
    stdout: '',
    stderr: [
      /asked again[\s\S]*asked again/,
      /^warn manager .*did not answer .*asked 3 times/m,
      /^error: .*RequestTimeoutError/m,
    ],
  },
  tie: { code: 0, stdout: 'blue\n', stderr: [/^task completed: chair: go$/m] },
}

for (const [name, { code, stdout, stderr }] of Object.entries(shown))
  t.test(name, async (t) => {
    const file = `examples/failures/${name}.ts` // tests are started in the project's folder
    t.match(read('docs/explanation/failures.md'), `\`${file} go\``)
    const seen = await dramatis(['run', file, 'go'])
    t.equal(seen.code, code, seen.stderr)
    t.match(seen.stdout, stdout)
    for (const line of stderr) t.match(seen.stderr, line)
  })
