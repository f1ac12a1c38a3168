/** The report, from the blackboard alone. Each statement names its entry and the agent that wrote it. */
import type { BlackboardEntry } from 'dramatis'
import { FactSchema, FindingSchema, MethodSchema, TableSchema, TOPICS } from './finding.ts'

/** By how sure the analysts are; the first that a confidence reaches is its section. */
const SECTIONS = [
  { from: 0.9, title: 'Well supported' },
  { from: 0.5, title: 'Likely' },
  { from: 0, title: 'Not enough evidence' },
]

/** Throws if a finding rests on an entry that is not there: nobody could check it. */
export function writeReport(title: string, entries: readonly BlackboardEntry[]): string {
  const findings = entries
    .filter((entry) => entry.entryType === 'finding')
    .map(toFinding)
    .sort(byTopicAndConfidence)
  const keys = new Set(entries.map((entry) => entry.key))
  for (const { entry } of findings) {
    const missing = entry.references.find((key) => !keys.has(key))
    if (missing !== undefined)
      throw new Error(`"${entry.key}" of ${entry.author} refers to "${missing}", which is not on the blackboard.`)
  }

  const facts = entries.filter((entry) => entry.entryType === 'fact')
  const lines = [
    `# ${title}`,
    '',
    ...facts.map((entry) => `${FactSchema.parse(entry.value).statement} ${source(entry)}`),
  ]
  SECTIONS.forEach(({ from, title }, index) => {
    const below = SECTIONS[index - 1]?.from ?? Number.POSITIVE_INFINITY
    const section = findings.filter(({ entry }) => entry.confidence >= from && entry.confidence < below)
    if (section.length === 0) return
    lines.push('', `## ${title}`, '')
    for (const { entry, statement } of section)
      lines.push(`- **${entry.confidence.toFixed(2)}** ${statement} ${source(entry)}`)
  })
  for (const entry of entries.filter((entry) => entry.entryType === 'table')) {
    lines.push('', '## Side by side', '', ...markdownTable(TableSchema.parse(entry.value)), '', source(entry))
  }
  const methods = entries.filter((entry) => entry.entryType === 'method').sort(byKey)
  if (methods.length > 0) lines.push('', '## How sure, and why', '')
  for (const entry of methods) lines.push(`- ${MethodSchema.parse(entry.value).statement} ${source(entry)}`)
  return lines.join('\n')
}

/** Columns as wide as they need to be, so that it reads well in a terminal too. */
export function markdownTable({
  columns,
  rows,
}: {
  columns: readonly string[]
  rows: readonly (readonly string[])[]
}): string[] {
  const widths = columns.map((column, index) => Math.max(column.length, ...rows.map((row) => row[index]?.length ?? 0)))
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell, index) => cell.padEnd(widths[index]!)).join(' | ')} |`
  return [line(columns), line(widths.map((width) => '-'.repeat(width))), ...rows.map(line)]
}

function toFinding(entry: BlackboardEntry) {
  return { entry, ...FindingSchema.parse(entry.value) }
}

type ReadFinding = ReturnType<typeof toFinding>

// A tie goes by key, so that the same board always gives the same report.
function byTopicAndConfidence(a: ReadFinding, b: ReadFinding): number {
  return (
    TOPICS.indexOf(a.topic) - TOPICS.indexOf(b.topic) ||
    b.entry.confidence - a.entry.confidence ||
    byKey(a.entry, b.entry)
  )
}

function byKey(a: BlackboardEntry, b: BlackboardEntry): number {
  return a.key.localeCompare(b.key)
}

function source(entry: BlackboardEntry): string {
  return `(\`${entry.key}\`, ${entry.author})`
}
