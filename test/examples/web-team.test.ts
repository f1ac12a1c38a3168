/** The team of the second source document that builds a page, as a new user starts it. */
import { readdirSync } from 'node:fs'
import t from 'tap'
import { start } from './start.ts'

t.test(
  'the manager plans, approves and sends back; the developers write and test, and nothing is left behind',
  async (t) => {
    const folder = t.testdir()
    const { status, stdout, stderr } = start('web-team', [], { TMPDIR: folder })
    t.equal(status, 0, stderr)
    t.match(stderr, /Who does task 1\? backend_dev .*Who does task 2\? frontend_dev .*Who does task 3\? backend_dev /s)
    t.match(stderr, /Is what "backend_dev" proposes for task 1 approved\? yes \(Numbers alone are ids\.\)/)
    t.match(stderr, /Is what "frontend_dev" has done for task 2 approved\? no \(A name can have markup in it/)
    const commands = stderr.match(/^ {2}backend_dev: run_cmd .*$/gm) ?? []
    t.same(
      commands.map((line) => line.match(/\w+\.test\.js/)?.[0]),
      ['api.test.js', 'page.test.js', 'page.test.js', 'api.test.js'],
      'the page is tested before the fix and after it',
    )
    const [, summary, ...files] = stdout.trimEnd().split('\n')
    t.match(summary, /^There is a profile page at .* All 3 tests pass\./)
    const made = ['api.test.js', 'package.json', 'page.test.js', 'public/profile.html', 'public/profile.js']
    t.same(files.slice(1), [...made, 'server.js', 'users.json'])
    t.same(readdirSync(folder), [])
  },
)
