/** Reports of Node hold the environment of the whole process. In a thread of an agent or a tool they show its own. */

/** Makes `process.report` show what `process.env` of this thread has. It writes no files. */
export function reportGrantsAlone(): void {
  const { get, ...property } = Object.getOwnPropertyDescriptor(process, 'report') ?? {}
  Object.defineProperty(process, 'report', {
    ...property,
    get() {
      const report: NodeJS.ProcessReport = get?.call(process)
      return Object.assign(Object.create(report), {
        getReport: (error?: Error) => ({
          ...Object(report.getReport(error)),
          environmentVariables: { ...process.env },
        }),
        writeReport() {
          throw new Error(
            'process.report.writeReport: in this thread reports are not written. Take process.report.getReport().',
          )
        },
      })
    },
  })
}
