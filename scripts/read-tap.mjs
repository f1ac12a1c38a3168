/**
 * Reads the TAP of one test file. What counts is tests, not assertions, so that a loop of a thousand checks does not
 * drown the rest: each `t.test` without subtests is one, and so is each assertion outside of any `t.test`. A `t.test`
 * with subtests only groups them, and counts as a failure of its own if an assertion directly in it fails.
 */
import { Parser } from 'tap-parser'

/** `parser` takes the stream; `report` fills up meanwhile. */
export function readTap() {
  const report = { passed: 0, failed: 0, skipped: 0, failures: [], noise: [], lastSeen: () => '', results: undefined }
  const count = (result) => {
    if (result.skip || result.todo) report.skipped += 1
    else if (result.ok) report.passed += 1
    else report.failed += 1
  }

  const watch = (parser, parent) => {
    // `open` is the subtest whose closing line comes next
    const test = { parser, parent, open: undefined, subtests: 0, failedItself: false }
    parser.on('child', (child) => {
      test.open = watch(child, test)
    })
    parser.on('assert', (result) => {
      const failed = !result.ok && !result.skip && !result.todo
      if (test.open) {
        const { subtests, failedItself } = test.open
        if (subtests === 0) count(result)
        else if (failedItself) report.failed += 1
        test.subtests += 1
        test.open = undefined
        return
      }
      if (failed) {
        test.failedItself = true
        report.failures.push({ name: fullName(test, result.name), diag: result.diag })
      }
      if (!parent || result.skip) count(result)
    })
    return test
  }

  const parser = new Parser((results) => {
    report.results = results
  })
  // what a subtest prints comes up to here as well
  parser.on('extra', (text) => report.noise.push(text))
  const whole = watch(parser, undefined)
  report.lastSeen = () => {
    let at = whole
    while (at.open) at = at.open
    return at === whole ? '' : fullName(at.parent, at.parser.name)
  }
  return { parser, report }
}

function fullName(test, name) {
  const path = [name]
  for (let at = test; at.parent; at = at.parent) path.unshift(at.parser.name)
  return path.join(' > ')
}

/** A diagnostic as YAML, without the excerpt of compiled source. */
export function toYaml(diag, indent) {
  const lines = []
  for (const [key, value] of Object.entries(diag ?? {})) {
    if (key === 'source' || value === undefined) continue
    if (key === 'at' && value?.fileName) lines.push(`at: ${value.fileName}:${value.lineNumber}:${value.columnNumber}`)
    else if (typeof value !== 'string') lines.push(`${key}: ${JSON.stringify(value)}`)
    else if (!value.trimEnd().includes('\n')) lines.push(`${key}: ${value.trimEnd()}`)
    else
      lines.push(
        `${key}: |`,
        ...value
          .trimEnd()
          .split('\n')
          .map((line) => `  ${line}`),
      )
  }
  return lines.map((line) => `${indent}${line}\n`).join('')
}
