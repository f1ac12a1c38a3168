/**
 * The bill of materials of the package, as CycloneDX: what npm installs with it, on any system, and what is bundled into
 * its files, of which npm knows nothing.
 */
import { run } from './checks.mjs'

const NOTICE = /^-{80}\n(\S+) (\S+) \(([^)]+)\)$/gm

/**
 * `folder`: a project with a lock file that has installed the package and nothing else. `notices`: the text of the
 * package's THIRD-PARTY-NOTICES.txt, which names what is bundled.
 */
export function sbomOf(name, folder, notices) {
  // not `--omit dev` in the clone: npm leaves out what packages for developers need as well, such as zod
  const bom = JSON.parse(run('npm', ['sbom', '--sbom-format', 'cyclonedx', '--package-lock-only'], { cwd: folder }))
  const itself = bom.components.find((each) => each.name === name)
  const installed = bom.components.filter((each) => each !== itself)
  const known = new Set(installed.map(({ purl }) => purl))
  const bundled = [...notices.matchAll(NOTICE)]
    .map(([, each, version, license]) => ({
      'bom-ref': `${each}@${version}`,
      type: 'library',
      name: each,
      version,
      scope: 'required',
      purl: `pkg:npm/${each.replace('@', '%40')}@${version}`,
      properties: [{ name: 'cdx:npm:package:bundled', value: 'true' }],
      licenses: [/ (OR|AND) /.test(license) ? { expression: license } : { license: { id: license } }],
    }))
    .filter(({ purl }) => !known.has(purl))
  const components = [...installed, ...bundled].map(({ externalReferences, ...each }) => ({
    ...each,
    externalReferences: externalReferences?.filter(({ type }) => type !== 'distribution'), // it names this machine's registry
  }))
  const dependencies = bom.dependencies
    .filter(({ ref }) => ref !== bom.metadata.component['bom-ref'])
    .map(({ ref, dependsOn }) => ({
      ref,
      dependsOn: ref === itself['bom-ref'] ? [...dependsOn, ...bundled.map((each) => each['bom-ref'])] : dependsOn,
    }))
  const { externalReferences: _, properties: __, ...component } = itself
  return {
    ...bom,
    metadata: { ...bom.metadata, component },
    components,
    dependencies: [...dependencies, ...bundled.map((each) => ({ ref: each['bom-ref'], dependsOn: [] }))],
  }
}
