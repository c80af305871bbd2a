/* Written by "npm run api" from openapi.json. */

export interface paths {
    "/acts": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Bulk actions, the newest first
         * @description They are kept for 90 days.
         */
        get: operations["list-acts"];
        put?: never;
        /**
         * Retry or cancel everything that a filter matches
         * @description What matches now are the members of the act: the oldest 1,000,000 at most. It is answered when they are written down, and the server moves them in turns; a restart does not end it. A member that has moved meanwhile is skipped. An act that nothing matches has ended when it is answered. GET /acts/count with the same filter says the number before.
         */
        post: operations["begin-act"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/acts/count": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * What an act would be about
         * @description The number of items that the filter matches now. Nothing is done.
         */
        get: operations["count-act"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/acts/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** A bulk action, and how far it is */
        get: operations["get-act"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/acts/{id}/members": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Members of an act that were not moved, and why
         * @description The first 1,000 that failed, and the first 1,000 that were skipped, but for private items of others. queue and id are of items; sources and jobs have source_id and job_id, an empty queue and the id 0.
         */
        get: operations["list-act-members"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/acts/{id}/stop": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Stop an act
         * @description What it has done stays done. Stopping an act that has ended changes nothing.
         */
        post: operations["stop-act"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/articles": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Articles that are stuck after a stage, or slow between two */
        get: operations["get-articles"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/articles/export": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Articles that are stuck or slow as a file */
        get: operations["get-articles-export"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/articles/{url_hash}/journey": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** How an article went through the pipeline */
        get: operations["get-journey"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/batch-items/{content_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The newest crawl of an item, and its others */
        get: operations["get-batch-item"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/batches": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Batches of crawled items, those read last first */
        get: operations["get-batches"];
        put?: never;
        /**
         * Announce a batch of crawled items, or send its items
         * @description The document is a `data.collected` event, whose `payload.minio_path` names bucket and key of an object; a legacy message with `data_ref`; inline `items` with `job_id` and `batch_index`; or a notification of a bucket of S3 or MinIO (`Records`). 202 says that the message is on disk. The object may come later. After 503 send the same request again: a batch that is announced twice counts once.
         */
        post: operations["announce-batch"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/batches/modes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Which messages about batches are taken at present */
        get: operations["batch-modes"];
        /**
         * Say which messages about batches are taken
         * @description What is left out stays as it is. Messages that are not taken wait on the stream, without a limit of time, and are taken when their mode is on.
         */
        put: operations["set-batch-modes"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/batches/reclassify": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Compute the projects and the categories of errors of all stored batches again
         * @description Projects follow the names of jobs, and categories the error codes, by the rules of this release. Nothing else changes. It may take minutes. After 503, or a lost connection, send the same request again.
         */
        post: operations["reclassify-batches"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/batches/report": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What became of each item of a batch, a job or a project */
        get: operations["get-batches-report"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/batches/summary": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Numbers of batches and of their items, and over time */
        get: operations["get-batches-summary"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/batches/{job_id}/{batch_index}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** A batch */
        get: operations["get-batch"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/batches/{job_id}/{batch_index}/items": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What became of each item of a batch, in its order */
        get: operations["get-batch-contents"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/batches/{job_id}/{batch_index}/items/{position}/retry": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Have one item of a batch tried again
         * @description The item must be an error. One that is being tried again stays as it is.
         */
        post: operations["retry-batch-item"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/crawl-errors": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Items that are errors at present, of the batches read last first, with their share */
        get: operations["get-crawl-errors"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/crawl-errors/groups": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Errors that are alike put together */
        get: operations["get-crawl-error-groups"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/crawl-errors/rates": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Errors and their share by a property, or over time */
        get: operations["get-crawl-error-rates"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/crawl-errors/retry": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * How many errors of batches would be tried again
         * @description The number of errors that the filter matches now and that are not being tried again. Nothing is done.
         */
        get: operations["count-crawl-errors-retry"];
        put?: never;
        /**
         * Have all errors of batches that a filter matches tried again
         * @description It begins a bulk action, whose record and progress GET /acts/{id} has, and which POST /acts/{id}/stop stops. Its members are the errors that match now and are not being tried again: the oldest 1,000,000 at most. Errors of all categories can be tried again. What is no error any more is skipped. GET /crawl-errors/retry with the same filter says the number before.
         */
        post: operations["retry-crawl-errors"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/dlq": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Dead letters: messages that could not be processed, and why */
        get: operations["get-dead-letters"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/dlq/purge": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Delete dead letters for good */
        post: operations["purge-dead-letters"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/dlq/replay": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Publish the messages of dead letters again, and delete these letters
         * @description An event goes to the subject that it belongs on. It counts once, however often it is replayed. What would be refused again stays a letter, and the answer says why. After 503 send the same request again.
         */
        post: operations["replay-dead-letters"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/dlq/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** A dead letter with its headers and its body */
        get: operations["get-dead-letter"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/dlq/{stream}/{seq}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The dead letter of a message of a stream */
        get: operations["get-dead-letter-of"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Events, newest first */
        get: operations["get-events"];
        put?: never;
        /**
         * Publish an event
         * @description Answers when the event is on disk. Members that are no fields of an event are refused. Metadata is free-form, but a name that is nearly that of a field which views use is refused. JSON lines are answered as by /events/batch. The body may be gzip, and has at most 8 MiB. A repeat that the projector does not know yet may be answered as accepted; it counts once all the same. 409: an event of another stage or service has the key and the URL.
         */
        post: operations["post-event"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/events/batch": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Publish many events
         * @description Up to 10,000 events or 8 MiB, gzip or not. Valid events are taken even when others are not. A repeat that the projector does not know yet may be counted as accepted here; it counts once all the same. When none is valid, the problem document also has the members of a BatchResult. After 503 send the same batch again.
         */
        post: operations["post-events"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/events/export": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Events as a file, newest first */
        get: operations["get-events-export"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/events/log": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What became of each event about a source within seven days, the latest first */
        get: operations["get-event-log"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/failures": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Failed items by their errors
         * @description Errors that differ only in numbers, ids and addresses are one group. With a state of items that have not ended, those that have failed before.
         */
        get: operations["group-failures"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/funnel": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The funnel of a window: events and distinct articles by stage */
        get: operations["get-funnel"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/funnel/sources": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Names of sources in the event stream, by number of events */
        get: operations["get-funnel-sources"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/funnel/sources/export": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Sources of the event stream as a file */
        get: operations["get-funnel-sources-export"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/health": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Whether the process runs */
        get: operations["health"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/ingestion/files": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Files in watched places
         * @description First those that cannot be taken, with the reason, then the others, those that changed last first.
         */
        get: operations["list-ingestion-files"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/ingestion/scan": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Look at watched places now
         * @description Takes files as the look in the background does, which comes anyway, and says what it did. It begins to take no more files after 15 seconds. The body may be left out.
         */
        post: operations["scan-ingestion"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/jobs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Jobs with their sources and their health, the oldest first */
        get: operations["list-jobs"];
        put?: never;
        /**
         * Make a job by hand
         * @description For a source that has none, with an interval or a cron expression. It does not follow its source in when and how it runs. After a migration the answer is 410: Millrace makes a job for each source that is enabled.
         */
        post: operations["make-job"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/jobs/acts": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Do one thing to all jobs that a filter matches
         * @description It begins a bulk action, whose record and progress GET /acts/{id} has, and which POST /acts/{id}/stop stops. Its members are the jobs that match now, the oldest 1,000,000 at most; an empty filter matches all. A job that does not match any more when its turn comes is skipped, and one that is refused has failed. GET /jobs/acts/count with the same filter says the number before.
         */
        post: operations["begin-jobs-act"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/jobs/acts/count": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * How many jobs a bulk action would be about
         * @description The number of jobs that the filter matches now. Nothing is done.
         */
        get: operations["count-jobs-act"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/jobs/audit": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Compare what became of due times with what schedules say
         * @description Computes the due times of all jobs anew, also of those that were deleted since, and looks for each in the ledger. It reads as much as there is: ask for a day at a time where many jobs run often.
         */
        get: operations["audit-jobs"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/jobs/bulk": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Do one thing to up to 500 jobs
         * @description In one transaction. The answer has a result for each member, in their order; those that are refused keep no other back.
         */
        post: operations["change-jobs"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/jobs/by-source/{source_id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The job of a source, with its health and last runs */
        get: operations["get-job-of-source"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/jobs/migrate": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Have jobs that were made by hand follow their sources
         * @description Sources that are enabled get the job that they lack, too. From then on no job is made by hand. With dry_run, nothing changes, and the answer says what would.
         */
        post: operations["migrate-jobs"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/jobs/reconcile": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Compare sources and jobs, and mend the differences
         * @description Sources that are enabled get the job that they lack, and jobs whose source does not exist become orphaned. With dry_run, nothing changes. Millrace does the same every five minutes.
         */
        post: operations["reconcile-jobs"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/jobs/stats": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The numbers of all jobs and runs */
        get: operations["get-job-stats"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/jobs/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** A job */
        get: operations["get-job"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/jobs/{id}/force-run": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Run a job at once
         * @description Neither a backoff nor a window holds it up. The schedule stays as it is.
         */
        post: operations["force-run-job"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/jobs/{id}/ledger": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What became of each due time of a job, the latest first */
        get: operations["get-job-ledger"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/jobs/{id}/override": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /**
         * Set how a job runs
         * @description Settings that are left out stay as they are, and null is back to what follows from the source. auto_managed false keeps all as it is, whatever the source becomes.
         */
        put: operations["override-job"];
        post?: never;
        /** Have a job follow its source in everything */
        delete: operations["automate-job"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/jobs/{id}/pause": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Pause a job
         * @description A run that a worker has goes on. Runs that no worker has are cancelled, and one that was asked for does not begin.
         */
        post: operations["pause-job"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/jobs/{id}/resume": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Resume a job
         * @description It runs at its next due time. A job whose source is disabled is resumed by enabling the source.
         */
        post: operations["resume-job"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/jobs/{id}/skip-next": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Skip the next due time of a job */
        post: operations["skip-next-run"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/jobs/{id}/unskip-next": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Have a job run at its next due time all the same
         * @description Takes skip-next back, until that due time has come.
         */
        post: operations["unskip-next-run"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/jobs/{id}/upcoming": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The next due times of a job
         * @description By the schedule that it has, with the changes of clocks between them.
         */
        get: operations["list-upcoming-runs"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/live": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Views as they change, over a WebSocket
         * @description A WebSocket. Send {"op":"subscribe","id":"a","view":"funnel","period":"today","source":"","tz":"UTC"}; the answer is a snapshot, {"id":"a","seq":1,"epoch":"…","funnel":{…as GET /funnel…}}, and another whole one whenever it changed, the first change at once, then at most ten a second. {"op":"unsubscribe","id":"a"} ends it. A reader that comes again may name "epoch" and "seq" of its last snapshot. It is answered {"id":"a","seq":…,"epoch":"…","unchanged":true} if that is the newest, else with a whole snapshot. With an "epoch", also an empty one, "seq" is the view's own sequence and jumps where a slow reader has skipped; without, it counts the snapshots of the subscription. A request that is not accepted is answered {"id":"a","error":{…a problem document…}}. A browser hands its token over as the query parameter access_token, or as the subprotocols "bearer, <token>". The views are: batches, as GET /batches/summary shows those that were read in a period, and the last 20 of them; dlq, the dead letters: how many, and why the newest are (scope admin); funnel, as GET /funnel shows it; without reclassifications at most once in 5 seconds; lag, how far behind the event stream each slot group is; queues, what stands in each work queue; uploads, as GET /uploads shows the newest 50, or one upload alone (scope uploads).
         */
        get: operations["live"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/live/sse": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * A view as it changes, as server-sent events
         * @description Server-sent events, for readers without WebSockets: each has as data the message of a WebSocket without its id, and as id epoch and sequence. Who comes again with the header Last-Event-ID (or the parameter last_event_id) gets nothing new, or a whole snapshot. A browser hands its token over as the query parameter access_token. The views are: batches, as GET /batches/summary shows those that were read in a period, and the last 20 of them; dlq, the dead letters: how many, and why the newest are (scope admin); funnel, as GET /funnel shows it; without reclassifications at most once in 5 seconds; lag, how far behind the event stream each slot group is; queues, what stands in each work queue; uploads, as GET /uploads shows the newest 50, or one upload alone (scope uploads).
         */
        get: operations["live-events"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/metrics": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Metrics for Prometheus */
        get: operations["metrics"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/objects/{bucket}/{key}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        /**
         * Store an object in the NATS Object Store
         * @description The body is the object, of any type and at most 64 MiB. Slashes in the key may be written as they are. The bucket is made if there are fewer than 100. An object is never overwritten: 409 when other content has its name. After 503 send the same request again.
         */
        put: operations["put-object"];
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/pending": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Items of all uploads
         * @description In the order of (updated_at, id), without results. Each item of the statuses asked for is shown at least once. One that changes meanwhile comes again, further behind: keep that with the highest version. A page may be short, or empty, and have next: changes are under way whose items belong there.
         */
        get: operations["list-pending-items"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/pipeline/files": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Files, the newest first */
        get: operations["get-files"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/pipeline/files/purge": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Drop finished files with their history
         * @description Files all of whose items are done at the last stage, or that were cancelled, that have nothing under way or in a queue, and that have not changed for the time given.
         */
        post: operations["purge-files"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/pipeline/files/register": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Register a file and its shards
         * @description Makes an item for each shard that the file lacks. Items that exist stay as they are.
         */
        post: operations["register-file"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/pipeline/files/{filename}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The statuses of a file's items */
        get: operations["get-file"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/pipeline/files/{filename}/cancel": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Cancel a file
         * @description Whatever it has started or in a queue fails for good, and whoever has it learns so when reporting. What is done stays done.
         */
        post: operations["cancel-file"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/pipeline/files/{filename}/history": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What happened to a file's items */
        get: operations["get-file-history"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/pipeline/files/{filename}/priority": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Set the priority of a file
         * @description Items of higher priorities are taken first.
         */
        post: operations["prioritize-file"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/pipeline/metrics/summary": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Items in numbers
         * @description Exact, at a cost that does not depend on their number.
         */
        get: operations["get-shard-summary"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/pipeline/queues/{stage}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Items that are ready for a stage
         * @description In the order in which they are taken: the highest priority first, and the oldest of it. To see them reserves nothing.
         */
        get: operations["get-queue"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/pipeline/queues/{stage}/limits": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Limit what a stage does
         * @description Limits that are left out stay as they are.
         */
        post: operations["limit-stage"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/pipeline/queues/{stage}/pause": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Hand out no items of a stage
         * @description What is started goes on. The body may be left out.
         */
        post: operations["pause-stage"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/pipeline/queues/{stage}/resume": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Hand out items of a stage again
         * @description The body may be left out.
         */
        post: operations["resume-stage"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/pipeline/queues/{stage}/take": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Take items that are ready for a stage
         * @description They are started for the worker, and for nobody else, until it reports or the lease ends: then they are new again, with the attempt counted.
         */
        post: operations["take-items"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/pipeline/stages/event-ingest/done": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Mark a file as complete
         * @description Its shards become ready for shard-splitter.
         */
        post: operations["finish-event-ingest"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/pipeline/stages/{stage}/retry-failed": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Bring failed items of a stage back to new
         * @description Those that pass every filter given, the longest failed first. Dead items (without attempts left, or cancelled) only when asked for.
         */
        post: operations["retry-failed-items"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/pipeline/stages/{stage}/{transition}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Move an item at a stage
         * @description start, done and fail are what the daemons report, and retry brings a failed item back to new. A move that the status does not allow answers 409 with current_status; one that was made before answers 200 and changes nothing. An item is started by one caller: another start of it answers 409, unless it names the same worker or, where none is named, has the same Idempotency-Key. Beyond these: release gives a started item back without counting the attempt, again gives it back with the attempt counted (it fails, and is dead, when none is left), and extend moves the end of its lease.
         */
        post: operations["move-item"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/pipeline/stages/{stage}/{transition}/bulk": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Move up to 5,000 items at a stage
         * @description Each item is judged by itself, and the answer says of each what became of it. They move in one transaction; start may have one for each few of them.
         */
        post: operations["move-items"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/pipeline/transitions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Transitions as they happen
         * @description As in GET /files/{filename}/history. Server-sent events: each has the event transition, an id, and as data a transition. The feed begins now, or behind the event that the header Last-Event-ID (or the parameter last_event_id) names: a reader that comes again misses nothing.
         */
        get: operations["follow-transitions"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/processes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * All processes of the installation
         * @description Each process is asked over NATS. One that does not answer within five seconds is listed with what is known of it, for an hour.
         */
        get: operations["list-processes"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/queues": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** User-defined queues */
        get: operations["list-queues"];
        put?: never;
        /**
         * Make a queue
         * @description Answers 201 when it was made, 200 when it is there already with the same settings, and 409 when it has others. There are at most 1000 queues, and at most 100 of one caller without the scope admin; a queue beyond is refused with 409.
         */
        post: operations["create-queue"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/queues/{queue}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * A queue in numbers
         * @description Exact, at a cost that does not depend on the number of items.
         */
        get: operations["get-user-queue"];
        put?: never;
        post?: never;
        /**
         * Delete a queue
         * @description With all its items and their history. Answers 409 with their number while items are new, scheduled or started, unless force is true. A queue that is made with the same name later begins anew.
         */
        delete: operations["delete-queue"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/queues/{queue}/cancel": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Cancel the items of a group
         * @description Those that are new, scheduled or started.
         */
        post: operations["cancel-group"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/queues/{queue}/items": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Items of a queue, the oldest first */
        get: operations["list-queue-items"];
        put?: never;
        /**
         * Add 1 to 10,000 items to a queue
         * @description All or none. An item whose key a live item of the queue has is not added; existing names that one.
         */
        post: operations["add-items"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/queues/{queue}/items/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** An item with what happened to it */
        get: operations["get-queue-item"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/queues/{queue}/items/{id}/replay": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Try an item again with another payload
         * @description One that is failed, dead or cancelled. It is new again, and the payload before stays with it: with who has changed it, and when.
         */
        post: operations["replay-queue-item"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/queues/{queue}/items/{id}/{transition}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Say what became of an item
         * @description done ends it, with a result. fail has it tried again after the backoff of the queue until no attempt is left; with permanent, or where the queue has no backoff, it fails. again gives it back with the attempt counted, release without. extend moves the end of the lease. All five hold for items that were pulled over NATS, too, with the generation of the message. done counts after the end of the lease, as long as nobody has begun the item since. cancel and retry are for items that nobody has to have. A move that the state does not allow answers 409 with the present state; one that was made before answers 200 and changes nothing.
         */
        post: operations["move-queue-item"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/queues/{queue}/limits": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Limit what a queue does
         * @description Limits that are left out stay as they are.
         */
        post: operations["limit-queue"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/queues/{queue}/pause": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Hand out no items of a queue
         * @description What is started goes on. The body may be left out.
         */
        post: operations["pause-queue"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/queues/{queue}/resume": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Hand out items of a queue again
         * @description The body may be left out.
         */
        post: operations["resume-queue"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/queues/{queue}/retry-failed": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Bring failed items back to new
         * @description The oldest first; dead and cancelled ones only when asked for. An item whose key another live item has stays as it is.
         */
        post: operations["retry-queue-items"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/queues/{queue}/take": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Take items of a queue
         * @description The highest priority first, and the oldest of it. They are started for the worker, and for nobody else, until it says what became of them or the lease ends: then they are new again, with the attempt counted.
         */
        post: operations["take-queue-items"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/queues/{queue}/transitions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Transitions of a queue's items as they happen
         * @description Server-sent events: each has the event transition, an id, and as data a transition. The feed begins now, or behind the event that the header Last-Event-ID (or the parameter last_event_id) names: a reader that comes again misses nothing.
         */
        get: operations["follow-queue-transitions"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/queues/{queue}/webhook": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The webhook of a queue
         * @description Without its secret.
         */
        get: operations["get-queue-webhook"];
        /**
         * Send the items of a queue to an address
         * @description In place of the webhook before. Each item is sent as a POST that is signed as Standard Webhooks are, and the status of the answer says what becomes of it. The secret is kept where none is given.
         */
        put: operations["set-queue-webhook"];
        post?: never;
        /**
         * Send the items of a queue nowhere
         * @description Requests that are under way end, and count.
         */
        delete: operations["delete-queue-webhook"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/ready": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Whether the process can do its work, and which dependency is there */
        get: operations["ready"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/schemas/event.json": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The JSON Schema of an event */
        get: operations["event-schema"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/sources": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Sources that are crawled, the oldest first */
        get: operations["list-sources"];
        put?: never;
        /**
         * Make a source
         * @description name and url are required. Publishes SOURCE_CREATED.
         */
        post: operations["create-source"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/sources/acts": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Enable, disable or delete all sources that a filter matches
         * @description It begins a bulk action, whose record and progress GET /acts/{id} has, and which POST /acts/{id}/stop stops. Its members are the sources that match now, the oldest 1,000,000 at most; an empty filter matches all. A source that does not match any more when its turn comes is skipped. The events are those of /sources/bulk. GET /sources/acts/count with the same filter says the number before.
         */
        post: operations["begin-sources-act"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/sources/acts/count": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * How many sources a bulk action would be about
         * @description The number of sources that the filter matches now. Nothing is done.
         */
        get: operations["count-sources-act"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/sources/bulk": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Enable, disable or delete up to 500 sources
         * @description In one transaction. The answer has a result for each member, in their order; those that do not exist keep no other back.
         */
        post: operations["change-sources"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/sources/export": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Sources as a list that can be imported
         * @description With the filters of the list. What is made while it is being written may be in it or not.
         */
        get: operations["export-sources"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/sources/import": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Make and change sources by a list
         * @description OPML, CSV with a header, or JSON lines, of at most 32 MiB. A source is known by its URL: one that there is none of is made, and of one that there is the fields that the list gives are changed. The same list again changes nothing. A line that breaks a rule keeps no other back; a list that cannot be read as a whole does. After 503 send the same list again.
         */
        post: operations["import-sources"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/sources/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** A source */
        get: operations["get-source"];
        /**
         * Change a source
         * @description Fields that are left out stay as they are. Publishes SOURCE_UPDATED with what has changed, and SOURCE_ENABLED or SOURCE_DISABLED for enabled; nothing, if nothing has changed.
         */
        put: operations["update-source"];
        post?: never;
        /**
         * Delete a source
         * @description Publishes SOURCE_DELETED.
         */
        delete: operations["delete-source"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/sources/{id}/disable": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Disable a source
         * @description Publishes SOURCE_DISABLED, unless it is disabled. The body may be left out.
         */
        post: operations["disable-source"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/sources/{id}/enable": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Enable a source
         * @description Publishes SOURCE_ENABLED, unless it is enabled. The body may be left out.
         */
        post: operations["enable-source"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/sources/{source_id}/executions": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Runs of a source's job, the latest first */
        get: operations["list-executions"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/stats": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** What a window's events carry, and how long articles take */
        get: operations["get-stats"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/stats/drift": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Model versions, and whether their classifications drift */
        get: operations["get-drift"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/uploads": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Uploads, the newest first */
        get: operations["list-uploads"];
        put?: never;
        /**
         * Upload a file of rows
         * @description CSV with a header, JSON lines, XLSX or a zip of images, of at most 2048 MiB. The answer comes when the file is on disk. Rows are persisted and processed in the background. A caller that gets no answer cannot know whether there is an upload: GET /uploads shows it.
         */
        post: operations["create-upload"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/uploads/tus": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Begin a resumable upload
         * @description The protocol is tus 1.0.0, with creation, creation-with-upload, termination and expiration. Location names the upload; its last part is the jobId. What is not continued within 24h0m0s is deleted.
         */
        post: operations["tus-create"];
        delete?: never;
        /** What of tus there is */
        options: operations["tus-options"];
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/uploads/tus/{jobId}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        post?: never;
        /** Give a resumable upload up */
        delete: operations["tus-delete"];
        options?: never;
        /**
         * How much of a file has come in
         * @description Upload-Offset says so. Where that is all of it, the upload is there, also when the last answer was lost.
         */
        head: operations["tus-offset"];
        /**
         * Send the next part of a file
         * @description Bytes that were acknowledged are on disk, as with any file. Of several requests at once one goes on.
         */
        patch: operations["tus-append"];
        trace?: never;
    };
    "/uploads/{jobId}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** An upload */
        get: operations["get-upload"];
        put?: never;
        post?: never;
        /**
         * Delete an upload with all that it has
         * @description Nobody sees it any more. Its rows and its file are deleted in the background.
         */
        delete: operations["delete-upload"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/uploads/{jobId}/cancel": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Cancel an upload
         * @description Items without a final status become SKIPPED, and rows that are not persisted never are. Then the upload is DONE. The body may be left out.
         */
        post: operations["cancel-upload"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/uploads/{jobId}/export": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The results of all items that are DONE */
        get: operations["get-upload-export"];
        put?: never;
        /**
         * Have a file made of all results of an upload
         * @description It is made in the background, of the items that are DONE when that begins. GET /uploads/{jobId}/exports/{exportId} shows how far it is. The link answers with the file until it expires. The body may be left out.
         */
        post: operations["export-upload"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/uploads/{jobId}/exports": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Exports of an upload that have not expired
         * @description The newest first.
         */
        get: operations["list-upload-exports"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/uploads/{jobId}/exports/{exportId}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** An export, and how far it is */
        get: operations["show-upload-export"];
        put?: never;
        post?: never;
        /**
         * Delete an export
         * @description One that is being made ends.
         */
        delete: operations["delete-upload-export"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/uploads/{jobId}/exports/{exportId}/file": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The file of an export that is DONE */
        get: operations["get-upload-export-file"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/uploads/{jobId}/file": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** The original file of an upload, byte for byte */
        get: operations["get-upload-file"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/uploads/{jobId}/images/{rowNo}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The image of a row of a zip
         * @description Where image_link of a row and of the payload of an item lead. The user of the upload and admins may fetch it; so may who has the key of the link, while the item is PROCESSING. It is sent as an attachment.
         */
        get: operations["get-upload-image"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/uploads/{jobId}/inputs/{rowNo}": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The input of an item that a worker has
         * @description Where input_link in the payload of an item leads: its row, which is too large for the payload. The link answers while the item is PROCESSING.
         */
        get: operations["get-upload-input"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/uploads/{jobId}/items": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * Items of an upload
         * @description By sort=updated_at, each item of the statuses asked for is shown at least once, as it is then. One that changes meanwhile comes again, further behind: keep that with the highest version. By sort=row_no, they are in the order of the file. after goes on behind a page; page works for the first 10,000 items.
         */
        get: operations["list-upload-items"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/uploads/{jobId}/kickoff": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Process items of an upload now
         * @description Runs a slice of the work that is done in the background as well, and says what it did: up to 20 seconds, one slice of an upload at a time.
         */
        post: operations["kickoff-upload"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/uploads/{jobId}/pause": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Pause an upload
         * @description Nothing more is persisted, processed or handed out until it is resumed. What workers have goes on. The body may be left out.
         */
        post: operations["pause-upload"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/uploads/{jobId}/preview": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /**
         * The first 50 rows of an upload's file
         * @description As encoding and delimiter have them. Nothing is changed: resume takes both.
         */
        get: operations["preview-upload"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/uploads/{jobId}/rejected": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Rows of an upload that break a rule, with their lines */
        get: operations["list-rejected-rows"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/uploads/{jobId}/rejected/file": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** All rejected rows of an upload */
        get: operations["get-rejected-file"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/uploads/{jobId}/reprocess": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Process items of an upload again
         * @description Those that are ERROR or NOT_FOUND and have attempts left become PENDING, and the upload goes on; of a paused one, when it is resumed. The body may be left out. It ends at 1,000,000 items or 15 seconds, and says that there may be more.
         */
        post: operations["reprocess-upload"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/uploads/{jobId}/resume": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Resume an upload
         * @description encoding and delimiter say how its file is read, where none of its rows is persisted yet; preview shows what they make of it. mapping replaces that of the upload. The body may be left out.
         */
        post: operations["resume-upload"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        Act: {
            /** @description What else the request gave: the reason, the settings of an override */
            arguments?: unknown;
            /** @description Whose token asked for it; empty on a server without tokens */
            by: string;
            /** @description What the action is about where it is about errors of batches; filter is empty then */
            crawl_errors?: components["schemas"]["ErrorFilter"];
            /** Format: date-time */
            created_at: string;
            /**
             * Format: int64
             * @description Members that it has moved, or that were as it was to make them
             */
            done: number;
            /**
             * Format: date-time
             * @description Absent while it runs
             */
            ended_at?: string;
            /**
             * Format: int64
             * @description Members that could not be moved
             */
            failed: number;
            /** @description What selected its members, as the request had it; {} where that is an upload or a private group of somebody else */
            filter: components["schemas"]["ItemFilter"] | components["schemas"]["SourceFilter"] | components["schemas"]["JobFilter"];
            /** Format: int64 */
            id: number;
            /**
             * Format: int64
             * @description Members that are not yet processed
             */
            left: number;
            /**
             * Format: int64
             * @description Its members: what the filter matched when it began
             */
            matched: number;
            /** @description The filter matched more than the 1,000,000 members that one act takes, the oldest first */
            more: boolean;
            /**
             * @description What is done to each
             * @example retry
             * @enum {string}
             */
            move: "retry" | "cancel" | "enable" | "disable" | "delete" | "pause" | "resume" | "force-run" | "skip-next" | "unskip-next" | "override";
            /**
             * Format: int64
             * @description Members that had moved meanwhile, or were gone, and were left alone
             */
            skipped: number;
            /** @enum {string} */
            state: "running" | "finished" | "stopped";
            /**
             * @description What its members are: items of queues, crawl_errors, sources or jobs
             * @example items
             */
            subject: string;
        };
        ActCount: {
            /**
             * Format: int64
             * @description What the filter matches now, at most 1,000,000
             */
            matched: number;
            /** @description It matches more, and an act takes these, the oldest of a queue first */
            more: boolean;
        };
        ActMember: {
            /**
             * Format: int32
             * @description Of an error of a batch
             */
            batch_index?: number;
            /** @description Of a shard */
            filename?: string;
            /**
             * Format: int64
             * @description Of an item or an error of a batch; 0: it has none, as sources and jobs
             */
            id: number;
            /** @description Of an error of a batch: the one of the batch; of a job: its own */
            job_id?: string;
            key?: string;
            /** @enum {string} */
            outcome: "skipped" | "failed";
            /**
             * Format: int32
             * @description Of an error of a batch
             */
            position?: number;
            /**
             * @description Of an error of a batch: the one that it is tried again in; empty: it is gone, or has none. Empty for sources and jobs
             * @example mail
             */
            queue: string;
            /** @example is started */
            reason: string;
            /**
             * Format: int32
             * @description Of a shard
             */
            shard?: number;
            /** @description Of a source, or a job */
            source_id?: string;
            /** @description Of a source, or a job; absent: there is none any more */
            source_name?: string;
        };
        ActMembers: {
            items: components["schemas"]["ActMember"][];
        };
        Acts: {
            items: components["schemas"]["Act"][];
            /** @description For the next page; absent from the last */
            next_cursor?: string;
        };
        AddItemsRequestBody: {
            /** @description 1 to 10,000 items with a JSON payload of up to 64 KiB each */
            items: components["schemas"]["EnqueueItem"][];
        };
        AddedItems: {
            added: components["schemas"]["QueueItemName"][];
            /** @description Live items that had the key of one in the request */
            existing: components["schemas"]["QueueItemName"][];
        };
        Alert: {
            /** @description The metric, its labels, and its value */
            detail: string;
            /** @example MillraceOutboxWaiting */
            name: string;
        };
        Announced: {
            /**
             * Format: int32
             * @description 0 after a notification: the object says its index
             * @example 1
             */
            batch_index: number;
            /**
             * @description As which of the formats the document was read
             * @enum {string}
             */
            format: "event" | "legacy" | "inline" | "notification";
            /**
             * @description Empty after a notification: the object says its job
             * @example proj_xyz-brand-0
             */
            job_id: string;
            /**
             * Format: int64
             * @description Of the message in the stream BATCHES
             */
            sequence: number;
        };
        Answer: {
            processes: components["schemas"]["Process"][];
        };
        Article: {
            /** @example https://example.com/article-123 */
            article_url: string;
            /**
             * Format: int64
             * @description With stuck_after: how many it has
             * @example 3
             */
            events?: number;
            /**
             * Format: date-time
             * @description With stuck_after: its last event, a repeated one perhaps
             */
            last_event_at?: string;
            /**
             * Format: date-time
             * @description When it first reached the stage
             * @example 2026-02-10T14:30:00Z
             */
            reached_at: string;
            /**
             * Format: double
             * @description Since reached_at until now, or until until_at
             * @example 7260
             */
            seconds: number;
            /** @example example_com */
            source_name: string;
            /**
             * @description That it is stuck after, or from which on it was slow
             * @example classified
             */
            stage: string;
            /** @description The newest */
            trace_id?: string;
            /**
             * Format: date-time
             * @description When it first reached until_stage
             */
            until_at?: string;
            /**
             * @description With sort=slowest
             * @example published
             */
            until_stage?: string;
            url_hash: string;
        };
        ArticlesPage: {
            articles: components["schemas"]["Article"][] | null;
            /** @description For the next page; absent on the last one */
            next_cursor?: string;
            /** @description As in the funnel */
            notes?: components["schemas"]["FieldError"][] | null;
        };
        AuditFinding: {
            /** Format: date-time */
            due_at: string;
            /** Format: uuid */
            job_id: string;
            /** @enum {string} */
            kind: "missed" | "doubled";
            why: string;
        };
        BatchConflict: {
            /** Format: date-time */
            at: string;
            /** Format: int64 */
            content_count: number;
            content_hash: string;
            /** @description Where it was; absent: in the message */
            object?: string;
            /** Format: int64 */
            seq: number;
        };
        BatchItem: {
            /**
             * Format: int64
             * @description Retries that the outcome took; 0: it came with the batch
             */
            attempts: number;
            /**
             * Format: int32
             * @example 1
             */
            batch_index: number;
            /** @description Where asked for: the item as it was read; a string of what is not JSON */
            content?: unknown;
            /** @description Empty: none can be read */
            content_id: string;
            /**
             * Format: date-time
             * @description null: the item does not say
             */
            crawled_at: string | null;
            /**
             * Format: date-time
             * @description When the outcome came
             */
            created_at: string;
            /** @description Absent: no error */
            error_category?: string;
            /** @description Absent: no error */
            error_code?: string;
            /** @description Where asked for: a JSON value, or null */
            error_details?: unknown;
            /** @description Message of the error, or the rule that the item breaks */
            fetch_error?: string;
            /** @enum {string} */
            fetch_status: "success" | "error";
            /** @description Outcomes before that a retry replaced, the newest first */
            history: components["schemas"]["CrawledItem"][];
            /** @example proj_xyz-brand-0 */
            job_id: string;
            keyword_source: string;
            /** @description Whether there are others beyond the 1,000 that are listed */
            more: boolean;
            /** @description Other items with this content_id, in this batch or others, the newest crawl first; those without crawled_at last */
            others: components["schemas"]["CrawledItem"][];
            permalink: string;
            pipeline_version: string;
            /** @example tiktok */
            platform: string;
            /**
             * Format: int32
             * @description In the batch, from 0
             */
            position: number;
            /** @description null: a dry run, or none */
            project_id: string | null;
            /**
             * Format: date-time
             * @description When the batch was read
             */
            read_at: string;
            task_type: string;
        };
        BatchModes: {
            /** @description Whether messages with data_ref are taken */
            legacy_mode: boolean;
            /** @description Whether data.collected events are taken */
            new_mode: boolean;
            /**
             * Format: double
             * @description The share of jobs whose data.collected events are taken. A job is in every share that is larger than the first it is in
             */
            new_mode_share: number;
        };
        BatchResult: {
            /**
             * Format: int64
             * @description Events that are new
             */
            accepted: number;
            /**
             * Format: int64
             * @description Events that the stream had already, or that stand twice in the request
             */
            duplicates: number;
            /** @description Events that break a rule */
            rejected: components["schemas"]["Rejected"][] | null;
        };
        BatchWarning: {
            /** @example count_announced */
            code: string;
            text: string;
        };
        BatchesStep: {
            /** Format: int64 */
            batches: number;
            /**
             * Format: int64
             * @description Items: ok, error and retrying together
             */
            content_count: number;
            /** Format: int64 */
            error: number;
            /** Format: date-time */
            from: string;
            /** Format: int64 */
            ok: number;
            /** Format: int64 */
            retrying: number;
        };
        BatchesSummary: {
            /** Format: int64 */
            batches: number;
            /**
             * Format: int64
             * @description Batches for which other content came
             */
            conflicts: number;
            /**
             * Format: int64
             * @description Items: ok, error and retrying together
             */
            content_count: number;
            /** Format: int64 */
            error: number;
            /** @description Items that are errors at present by code; the most frequent first, up to 1,000 */
            errors: components["schemas"]["CodeCount"][];
            /**
             * Format: date-time
             * @description null: there is no batch
             */
            first_read_at: string | null;
            /**
             * Format: date-time
             * @description null: there is no batch
             */
            last_read_at: string | null;
            /** Format: int64 */
            ok: number;
            /** @description By when batches were read, the earliest first; parts without a batch are left out */
            over_time: components["schemas"]["BatchesStep"][];
            /** Format: int64 */
            retrying: number;
            /**
             * Format: int64
             * @description How long the parts of over_time are
             */
            step_seconds: number;
            /**
             * Format: double
             * @description ok of content_count, from 0 to 1; null: there are no items
             */
            success_rate: number | null;
            /**
             * Format: int64
             * @description Batches with warnings
             */
            warned: number;
        };
        BeginActRequestBody: {
            filter: components["schemas"]["ItemFilter"];
            /**
             * @description retry: failed items are new again. cancel: items that have not ended end
             * @enum {string}
             */
            move: "retry" | "cancel";
        };
        BeginJobsActBody: {
            /** @description As the parameters of GET /jobs; {}: all jobs */
            filter: components["schemas"]["JobFilter"];
            /**
             * @description What is done to each
             * @enum {string}
             */
            move: "pause" | "resume" | "force-run" | "skip-next" | "unskip-next" | "override";
            /** @description Of override: the settings, as PUT /jobs/{id}/override takes them */
            override?: {
                /** @description Whether the job follows its source */
                auto_managed?: boolean;
                /**
                 * Format: int64
                 * @description The job rests after failed runs: for this time, doubled for each of them in a row; default the interval
                 */
                backoff_base_minutes?: number | null;
                /**
                 * Format: int64
                 * @description The longest that it rests; default 1440
                 */
                backoff_max_minutes?: number | null;
                /** Format: int64 */
                catch_up_cap?: number | null;
                /** @enum {string|null} */
                catch_up_policy?: "none" | "one" | "recent" | "all" | null;
                /** Format: int64 */
                catch_up_spread_seconds?: number | null;
                /** Format: int64 */
                catch_up_window_seconds?: number | null;
                crawl_window?: {
                    /** @description Days on which it opens, 0 is Sunday; empty: every day. A request may name them, such as mon */
                    days?: (number | string)[];
                    /**
                     * Format: int64
                     * @description When it closes
                     * @example 6
                     */
                    end_hour: number;
                    /**
                     * Format: int64
                     * @description When it opens
                     * @example 22
                     */
                    start_hour: number;
                    /**
                     * @description Whose hours these are
                     * @example Europe/Berlin
                     */
                    time_zone?: string;
                } | null;
                /**
                 * @description A cron expression of five fields, in place of an interval
                 * @example 0 6 * * 1-5
                 */
                cron?: string | null;
                /**
                 * Format: int64
                 * @description From one due time to the next
                 */
                interval_minutes?: number | null;
                /** Format: int64 */
                jitter_seconds?: number | null;
                /**
                 * Format: int64
                 * @description Attempts of a run before it has failed; default 1
                 */
                max_attempts?: number | null;
                /** Format: int64 */
                max_concurrent?: number | null;
                /** @enum {string|null} */
                overlap_policy?: "skip" | "buffer_one" | "cancel_other" | "allow" | null;
                /** Format: int64 */
                priority?: number | null;
                /**
                 * Format: int64
                 * @description From a failed attempt of a run to the next, doubled for each further attempt; default 60
                 */
                retry_delay_seconds?: number | null;
                /**
                 * @description Of the cron expression; default UTC
                 * @example Europe/Berlin
                 */
                time_zone?: string | null;
            };
        };
        BeginSourcesActBody: {
            /** @description As the parameters of GET /sources; {}: all sources */
            filter: components["schemas"]["SourceFilter"];
            /**
             * @description What is done to each
             * @enum {string}
             */
            move: "enable" | "disable" | "delete";
            /** @description Why, for the event; default user_requested */
            reason?: string;
        };
        BegunAct: {
            /** @description What else the request gave: the reason, the settings of an override */
            arguments?: unknown;
            /** @description Whose token asked for it; empty on a server without tokens */
            by: string;
            /** @description What the action is about where it is about errors of batches; filter is empty then */
            crawl_errors?: components["schemas"]["ErrorFilter"];
            /** Format: date-time */
            created_at: string;
            /**
             * Format: int64
             * @description Members that it has moved, or that were as it was to make them
             */
            done: number;
            /**
             * Format: date-time
             * @description Absent while it runs
             */
            ended_at?: string;
            /**
             * Format: int64
             * @description Members that could not be moved
             */
            failed: number;
            /** @description What selected its members, as the request had it; {} where that is an upload or a private group of somebody else */
            filter: components["schemas"]["ItemFilter"] | components["schemas"]["SourceFilter"] | components["schemas"]["JobFilter"];
            /** Format: int64 */
            id: number;
            /**
             * Format: int64
             * @description Members that are not yet processed
             */
            left: number;
            /**
             * Format: int64
             * @description Its members: what the filter matched when it began
             */
            matched: number;
            /** @description The filter matched more than the 1,000,000 members that one act takes, the oldest first */
            more: boolean;
            /**
             * @description What is done to each
             * @example retry
             * @enum {string}
             */
            move: "retry" | "cancel" | "enable" | "disable" | "delete" | "pause" | "resume" | "force-run" | "skip-next" | "unskip-next" | "override";
            /**
             * Format: int64
             * @description Members that had moved meanwhile, or were gone, and were left alone
             */
            skipped: number;
            /** @enum {string} */
            state: "running" | "finished" | "stopped";
            /**
             * @description What its members are: items of queues, crawl_errors, sources or jobs
             * @example items
             */
            subject: string;
        };
        Bulk: {
            /**
             * Format: int64
             * @description Items that moved
             */
            changed: number;
            /**
             * Format: int64
             * @description All others
             */
            refused: number;
            /**
             * Format: int64
             * @description Items that had made the move before
             */
            repeated: number;
            /** @description In the order of the request */
            results: components["schemas"]["ItemOutcome"][] | null;
            stage: string;
            transition: string;
        };
        BulkRequestBody: {
            /**
             * Format: double
             * @description With retry, release, again: seconds until the item stands in the queue; with done: until it stands in the next
             */
            delay_s?: number;
            /** @description With fail and again: why */
            error?: string;
            /** @description 1 to 5,000 items */
            items: components["schemas"]["Item"][];
            /**
             * Format: double
             * @description With start and extend: seconds, 1 to 86,400, after which the item is new again unless it has moved; without it a start has no end
             */
            lease_s?: number;
            /** @description Who does the work; one that is named cannot report for another, and may start what it has started; not nats */
            worker?: string;
        };
        CancelGroupRequestBody: {
            group: string;
            /**
             * Format: int64
             * @default 10000
             */
            limit: number;
        };
        Cancelled: {
            /**
             * Format: int64
             * @description Items that failed by it
             */
            failed: number;
            filename: string;
        };
        ChangeJobsRequestBody: {
            /** @description 1 to 500 jobs, by their ids */
            ids?: string[];
            /**
             * @description pause, resume, force-run, skip-next, unskip-next or override
             * @example pause
             */
            operation: string;
            /** @description Of override: the settings, as PUT /jobs/{id}/override takes them */
            override?: {
                /** @description Whether the job follows its source */
                auto_managed?: boolean;
                /**
                 * Format: int64
                 * @description The job rests after failed runs: for this time, doubled for each of them in a row; default the interval
                 */
                backoff_base_minutes?: number | null;
                /**
                 * Format: int64
                 * @description The longest that it rests; default 1440
                 */
                backoff_max_minutes?: number | null;
                /** Format: int64 */
                catch_up_cap?: number | null;
                /** @enum {string|null} */
                catch_up_policy?: "none" | "one" | "recent" | "all" | null;
                /** Format: int64 */
                catch_up_spread_seconds?: number | null;
                /** Format: int64 */
                catch_up_window_seconds?: number | null;
                crawl_window?: {
                    /** @description Days on which it opens, 0 is Sunday; empty: every day. A request may name them, such as mon */
                    days?: (number | string)[];
                    /**
                     * Format: int64
                     * @description When it closes
                     * @example 6
                     */
                    end_hour: number;
                    /**
                     * Format: int64
                     * @description When it opens
                     * @example 22
                     */
                    start_hour: number;
                    /**
                     * @description Whose hours these are
                     * @example Europe/Berlin
                     */
                    time_zone?: string;
                } | null;
                /**
                 * @description A cron expression of five fields, in place of an interval
                 * @example 0 6 * * 1-5
                 */
                cron?: string | null;
                /**
                 * Format: int64
                 * @description From one due time to the next
                 */
                interval_minutes?: number | null;
                /** Format: int64 */
                jitter_seconds?: number | null;
                /**
                 * Format: int64
                 * @description Attempts of a run before it has failed; default 1
                 */
                max_attempts?: number | null;
                /** Format: int64 */
                max_concurrent?: number | null;
                /** @enum {string|null} */
                overlap_policy?: "skip" | "buffer_one" | "cancel_other" | "allow" | null;
                /** Format: int64 */
                priority?: number | null;
                /**
                 * Format: int64
                 * @description From a failed attempt of a run to the next, doubled for each further attempt; default 60
                 */
                retry_delay_seconds?: number | null;
                /**
                 * @description Of the cron expression; default UTC
                 * @example Europe/Berlin
                 */
                time_zone?: string | null;
            };
            /** @description In place of ids: the jobs of 1 to 500 sources, by the ids of the sources */
            source_ids?: string[];
        };
        ChangeSourcesRequestBody: {
            /** @description 1 to 500 sources, by their ids */
            ids: string[];
            /**
             * @description enable, disable or delete
             * @example disable
             */
            operation: string;
            /** @description Why, for the event; default user_requested */
            reason?: string;
        };
        ChangedJob: {
            /** @description Why not */
            error?: string;
            /** @description As the request names it: that of the job, or of its source */
            id: string;
            /** @description Whether it is as it was asked for */
            ok: boolean;
        };
        ChangedJobs: {
            results: components["schemas"]["ChangedJob"][];
        };
        ChangedSource: {
            /** @description Why not */
            error?: string;
            id: string;
            /** @description Whether it is as it was asked for */
            ok: boolean;
        };
        ChangedSources: {
            results: components["schemas"]["ChangedSource"][];
        };
        CheckStatus: {
            /**
             * Format: int64
             * @description Messages that are not yet counted
             * @example 0
             */
            behind?: number;
            /**
             * Format: double
             * @description How long the first of them has waited
             */
            behind_seconds?: number;
            /** @description Why it is down */
            error?: string;
            /** @example nats */
            name: string;
            /** @description Whether the process is not ready while it is down */
            needed: boolean;
            /**
             * Format: date-time
             * @description When it came to this status
             */
            since: string;
            /** @enum {string} */
            status: "up" | "down";
            /** @description What needs attention, though everything runs */
            warning?: string;
        };
        ClassificationStats: {
            /**
             * Format: double
             * @description null without a score
             * @example 72
             */
            avg_quality_score: number | null;
            /** @description Events by metadata.model_version */
            by_model_version: {
                [key: string]: number;
            };
            /** @description Events by topic; an event counts for each of its topics */
            by_topic: {
                [key: string]: number;
            };
            /**
             * Format: double
             * @example 75
             */
            median_quality_score: number | null;
            /**
             * Format: int64
             * @description total_classified without unique_articles
             * @example 2148
             */
            reclassifications: number;
            /**
             * Format: int64
             * @description Events; as count in the funnel
             * @example 12150
             */
            total_classified: number;
            /**
             * Format: int64
             * @description As in the funnel
             * @example 10002
             */
            unique_articles: number;
        };
        CodeCount: {
            /** @enum {string} */
            category: "rate_limiting" | "content" | "network" | "parsing" | "media" | "storage" | "generic";
            /** @example RATE_LIMITED */
            code: string;
            /** Format: int64 */
            count: number;
        };
        CrawlBatch: {
            /** Format: date-time */
            announced_at: string;
            /**
             * Format: int32
             * @description How many items the message announced; null: it did not say
             */
            announced_count: number | null;
            /**
             * Format: int32
             * @example 1
             */
            batch_index: number;
            /** @description Of the object that had the items; null: the message had them */
            bucket: string | null;
            /** Format: date-time */
            changed_at: string;
            /** @description The first other content that came for the batch, and does not count; null: none */
            conflict: components["schemas"]["BatchConflict"] | null;
            /**
             * Format: int32
             * @description How many items it has: ok, error and retrying together
             */
            content_count: number;
            /** @description SHA-256 of the content that counts, after decompression, in hexadecimal digits */
            content_hash: string;
            /**
             * Format: int32
             * @description Items that are errors, and are not tried again
             */
            error: number;
            /** @description Items that are errors at present by code, those that are tried again among them; the most frequent first */
            errors: components["schemas"]["CodeCount"][];
            /**
             * @description How it was announced
             * @enum {string}
             */
            format: "event" | "legacy" | "inline" | "notification";
            /** @example proj_xyz-brand-0 */
            job_id: string;
            /** @description Of the object that had the items; null: the message had them */
            key: string | null;
            /**
             * @description As announced; empty: not said
             * @example VinFast VF8
             */
            keyword: string;
            /**
             * Format: int32
             * @description Items that were crawled
             */
            ok: number;
            /**
             * @description As announced; empty: not said
             * @example tiktok
             */
            platform: string;
            /**
             * @description The project that the name of the job says; null: a dry run, or none
             * @example proj_xyz
             */
            project_id: string | null;
            /** Format: date-time */
            read_at: string;
            /**
             * Format: int32
             * @description Items that are errors, and are tried again
             */
            retrying: number;
            /**
             * @description retrying: some items are tried again; failed: every item is an error; partial: some are; succeeded: none is; empty: there are none
             * @enum {string}
             */
            state: "succeeded" | "partial" | "failed" | "retrying" | "empty";
            /**
             * @description As announced; empty: not said
             * @example research_and_crawl
             */
            task_type: string;
            /** @description What is unusual about it. It fails nothing */
            warnings: components["schemas"]["BatchWarning"][];
        };
        CrawlBatchPage: {
            items: components["schemas"]["CrawlBatch"][];
            /** @description For the next page; absent from the last */
            next_cursor?: string;
        };
        CrawlError: {
            /**
             * Format: int64
             * @description Retries that the error took; 0: it came with the batch
             */
            attempts: number;
            /**
             * Format: int32
             * @example 1
             */
            batch_index: number;
            /** @description Empty: none can be read */
            content_id: string;
            /**
             * Format: date-time
             * @description When the error came
             */
            created_at: string;
            /** @example rate_limiting */
            error_category: string;
            /** @example RATE_LIMITED */
            error_code: string;
            /** @description A JSON value, or null */
            error_details: unknown;
            error_message: string;
            /** @example proj_xyz-brand-0 */
            job_id: string;
            permalink: string;
            /** @example tiktok */
            platform: string;
            /**
             * Format: int32
             * @description In the batch, from 0
             */
            position: number;
            /** @description null: a dry run, or none */
            project_id: string | null;
            /**
             * Format: date-time
             * @description When the batch was read
             */
            read_at: string;
        };
        CrawlErrorGroup: {
            /** Format: int64 */
            count: number;
            /** @example rate_limiting */
            error_category: string;
            /** @example RATE_LIMITED */
            error_code: string;
            /** @description The last of them */
            example: components["schemas"]["CrawlError"];
            /** @description The message, with numbers, ids and addresses made alike */
            fingerprint: string;
            /**
             * Format: date-time
             * @description When the first of them came
             */
            first_seen: string;
            /**
             * Format: date-time
             * @description When the last of them came
             */
            last_seen: string;
        };
        CrawlErrorGroups: {
            /** @description The largest first */
            groups: components["schemas"]["CrawlErrorGroup"][];
            /** @description Whether there are smaller groups than these */
            more: boolean;
        };
        CrawlErrorPage: {
            /**
             * Format: int64
             * @description Items of the same project, platform, job and time, whatever became of them
             */
            content_count: number;
            items: components["schemas"]["CrawlError"][];
            /** @description For the next page; absent from the last */
            next_cursor?: string;
            /**
             * Format: double
             * @description total of content_count, from 0 to 1; null: there are no items
             */
            rate: number | null;
            /**
             * Format: int64
             * @description Errors that the filters select, on all pages
             */
            total: number;
        };
        CrawlErrorRate: {
            /**
             * Format: int64
             * @description Items that may have had it: of the project, platform or time; for codes and categories all that the other filters select
             */
            content_count: number;
            /** Format: int64 */
            errors: number;
            /**
             * @description The code, category, project or platform; or when the hour or day begins. Empty: no project, or a platform that was not said
             * @example RATE_LIMITED
             */
            name: string;
            /**
             * Format: double
             * @description errors of content_count, from 0 to 1; null: there are no items
             */
            rate: number | null;
        };
        CrawlErrorRates: {
            by: string;
            /**
             * Format: int64
             * @description Items of the same project, platform, job and time
             */
            content_count: number;
            /**
             * Format: int64
             * @description Errors that the filters select
             */
            errors: number;
            /** @description The most frequent first, and times the earliest first; up to 1,000 */
            items: components["schemas"]["CrawlErrorRate"][];
            /**
             * Format: double
             * @description errors of content_count, from 0 to 1; null: there are no items
             */
            rate: number | null;
        };
        CrawlHealth: {
            /**
             * Format: double
             * @description Of these runs; null: there are none
             * @example 12.3
             */
            avg_duration_seconds: number | null;
            /** Format: int64 */
            last_24h_articles: number;
            /** Format: int64 */
            last_24h_failures: number;
            /**
             * Format: int64
             * @description Runs that ended with success or failed within 24 hours
             */
            last_24h_runs: number;
            /**
             * Format: date-time
             * @description When a worker took its last run; null: none has
             */
            last_run_at: string | null;
            /** @enum {string|null} */
            last_run_status: "queued" | "running" | "success" | "failed" | "cancelled" | null;
            /**
             * @description failed: 3 runs in a row have failed, or its source does not exist; warning: the last run has failed, or less than 90 % of the last 24 hours' runs have succeeded; unknown: no run has ended yet
             * @enum {string}
             */
            status: "healthy" | "warning" | "failed" | "unknown";
            /**
             * Format: double
             * @description Of these runs, in thousandths; null: there are none
             * @example 0.979
             */
            success_rate: number | null;
        };
        CrawlSchedule: {
            /** @example 0 6 * * 1-5 */
            cron?: string;
            /** @enum {string} */
            kind: "interval" | "cron";
            /**
             * @description Of the cron expression
             * @example UTC
             */
            time_zone: string;
        };
        CrawlSource: {
            /** Format: date-time */
            created_at: string;
            /** @description Whether it is crawled */
            enabled: boolean;
            /** Format: uuid */
            id: string;
            /**
             * Format: int64
             * @description How many links away from its URL it is crawled
             * @example 3
             */
            max_depth: number;
            /**
             * @description What people call it, 1 to 255 bytes
             * @example Example News
             */
            name: string;
            /**
             * @description How urgent its crawls are
             * @enum {string}
             */
            priority: "low" | "normal" | "high" | "critical";
            /**
             * Format: int64
             * @description Requests a second that it allows
             * @example 10
             */
            rate_limit: number;
            /** @description Where its pages have their parts, by the name of the part: a JSON object */
            selectors: unknown;
            /**
             * Format: date-time
             * @description When a field was last changed
             */
            updated_at: string;
            /**
             * @description Where its crawl begins
             * @example https://example.com
             */
            url: string;
        };
        CrawlSourcePage: {
            items: components["schemas"]["CrawlSource"][];
            /** @description For the next page; absent from the last */
            next_cursor?: string;
            /**
             * Format: int64
             * @description How many sources the filters select, on all pages
             */
            total: number;
        };
        CrawlStats: {
            /** @description Events by source */
            by_source: {
                [key: string]: number;
            };
            /**
             * Format: int64
             * @description total_crawled without unique_urls
             * @example 4280
             */
            duplicates: number;
            /**
             * Format: int64
             * @description Events; as count in the funnel
             * @example 75480
             */
            total_crawled: number;
            /**
             * Format: int64
             * @description Distinct articles; as unique_articles in the funnel
             * @example 71200
             */
            unique_urls: number;
        };
        CrawlWindow: {
            /** @description Days on which it opens, 0 is Sunday; empty: every day. A request may name them, such as mon */
            days: number[];
            /**
             * Format: int64
             * @description When it closes
             * @example 6
             */
            end_hour: number;
            /**
             * Format: int64
             * @description When it opens
             * @example 22
             */
            start_hour: number;
            /**
             * @description Whose hours these are
             * @example Europe/Berlin
             */
            time_zone: string;
        };
        CrawledItem: {
            /**
             * Format: int64
             * @description Retries that the outcome took; 0: it came with the batch
             */
            attempts: number;
            /**
             * Format: int32
             * @example 1
             */
            batch_index: number;
            /** @description Empty: none can be read */
            content_id: string;
            /**
             * Format: date-time
             * @description null: the item does not say
             */
            crawled_at: string | null;
            /**
             * Format: date-time
             * @description When the outcome came
             */
            created_at: string;
            /** @description Absent: no error */
            error_category?: string;
            /** @description Absent: no error */
            error_code?: string;
            /** @description Message of the error, or the rule that the item breaks */
            fetch_error?: string;
            /** @enum {string} */
            fetch_status: "success" | "error";
            /** @example proj_xyz-brand-0 */
            job_id: string;
            keyword_source: string;
            permalink: string;
            pipeline_version: string;
            /** @example tiktok */
            platform: string;
            /**
             * Format: int32
             * @description In the batch, from 0
             */
            position: number;
            /** @description null: a dry run, or none */
            project_id: string | null;
            /**
             * Format: date-time
             * @description When the batch was read
             */
            read_at: string;
            task_type: string;
        };
        CrawledItemPage: {
            items: components["schemas"]["CrawledItem"][];
            /** @description For the next page; absent from the last */
            next_cursor?: string;
        };
        CreateQueueRequest: {
            /** @description Seconds to wait after each attempt in vain; the last counts for all that follow. Without it fail is final */
            backoff_s?: number[] | null;
            /**
             * Format: int64
             * @description Items out at a time, with all workers together; 0, the default: any number
             */
            concurrency?: number;
            /**
             * Format: int64
             * @description Items of one group out at a time, to 10,000; 0, the default: any number
             */
            concurrency_per_group?: number;
            /**
             * Format: double
             * @description Seconds for which an item is taken by a worker that names no time, 1 to 86,400; default 30
             */
            lease_s?: number;
            /**
             * Format: int64
             * @description Attempts after which an item is dead; 0: any number; default 20
             */
            max_attempts?: number;
            /**
             * Format: int64
             * @description Live items, and finished items that are kept, 1 to 10,000,000; default 1000000
             */
            max_items?: number;
            /**
             * @description 1 to 63 lower-case letters, digits, hyphens and underscores
             * @example mail
             */
            name: string;
            /** @description Starts of items with the same key in any so many seconds; a count of 0, the default: any number */
            rate_per_key?: components["schemas"]["Rate"];
            /**
             * Format: double
             * @description Seconds for which finished items are kept, to 31,536,000; default 604800
             */
            retention_s?: number;
        };
        Decision: {
            /** Format: date-time */
            decided_at: string;
            /** Format: date-time */
            due_at: string;
            /** @description The run, if there was one */
            execution_id: string | null;
            /** @description Whether somebody asked for the run */
            forced: boolean;
            /** @enum {string} */
            outcome: "ran" | "caught_up" | "buffered" | "skipped" | "coalesced" | "outside_window" | "backoff" | "paused" | "expired";
            /** @description Why, in words */
            reason: string;
        };
        DeletedQueue: {
            /**
             * Format: int64
             * @description Items that were deleted with it
             */
            items: number;
            /** @example mail */
            name: string;
        };
        Difference: {
            /** @enum {string} */
            action: "create_job" | "orphan_job";
            /**
             * Format: uuid
             * @description The job that has no source
             */
            job_id?: string;
            /** Format: uuid */
            source_id: string;
            source_name: string;
        };
        Drift: {
            /** @description By default of the newest version with the one before; null without two */
            comparison: components["schemas"]["DriftComparison"] | null;
            /** @description Of the comparison */
            drift_indicators: components["schemas"]["DriftIndicators"];
            /**
             * Format: date-time
             * @example 2026-02-10T15:42:00.003Z
             */
            generated_at: string;
            /** @description The newest first, at most 100 */
            model_versions: components["schemas"]["ModelVersion"][] | null;
            /** @description As in the funnel */
            notes?: components["schemas"]["FieldError"][] | null;
            /**
             * Format: int32
             * @description model_versions are of one article in so many; 1, unless there are very many
             * @example 1
             */
            sample: number;
            stream: components["schemas"]["StreamPosition"];
        };
        DriftComparison: {
            current: components["schemas"]["DriftSample"];
            reference: components["schemas"]["DriftSample"];
            tests: components["schemas"]["DriftTest"][] | null;
        };
        DriftIndicators: {
            /**
             * Format: double
             * @description Current average quality score, less that of the reference; null where one has none
             * @example 6
             */
            quality_score_delta: number | null;
            /**
             * Format: double
             * @description Half of the sum over topics of how far the shares of the articles are apart; null where a sample is empty
             * @example 0.04
             */
            topic_distribution_shift: number | null;
        };
        DriftSample: {
            /**
             * Format: int64
             * @description Distinct articles
             * @example 2148
             */
            articles: number;
            /**
             * Format: double
             * @example 68
             */
            avg_quality_score: number | null;
            /**
             * Format: int64
             * @description Events
             * @example 2148
             */
            classifications: number;
            /**
             * Format: date-time
             * @description Begin of its window; null: no bound
             * @example 2026-02-01T00:00:00Z
             */
            from: string | null;
            /**
             * Format: int32
             * @description The tests look at one article in so many; 1, unless there are very many
             * @example 1
             */
            sample: number;
            /**
             * Format: date-time
             * @description End of its window, exclusive; null: no bound
             */
            to: string | null;
            /**
             * @description Only this model version; empty: all
             * @example v2.0
             */
            version: string;
        };
        DriftTest: {
            /**
             * Format: int64
             * @example 19800
             */
            current_size: number;
            /**
             * @example population_stability_index
             * @enum {string}
             */
            name: "population_stability_index" | "jensen_shannon_distance" | "kolmogorov_smirnov" | "wasserstein_distance";
            /**
             * @example topics
             * @enum {string}
             */
            of: "topics" | "quality_score";
            /**
             * Format: double
             * @description Of kolmogorov_smirnov; null for the others
             */
            p_value: number | null;
            /**
             * Format: int64
             * @description Mentions of topics, or quality scores
             * @example 4100
             */
            reference_size: number;
            /**
             * Format: double
             * @description A value above it is drift
             * @example 0.25
             */
            threshold: number | null;
            /**
             * Format: double
             * @description null where a sample is empty
             * @example 0.013
             */
            value: number | null;
            /**
             * @description insufficient_data below 30 in a sample; moderate is a population_stability_index above 0.1
             * @example stable
             * @enum {string}
             */
            verdict: "stable" | "moderate" | "drift" | "insufficient_data";
        };
        EnqueueItem: {
            group?: string;
            key?: string;
            payload?: unknown;
            /** Format: int32 */
            priority?: number;
            /** Format: date-time */
            run_at?: string;
        };
        ErrorFilter: {
            /**
             * Format: int32
             * @description Errors of this batch of job_id
             * @example 1
             */
            batch_index?: number;
            /**
             * @description Errors of this category: rate_limiting, content, network, parsing, media, storage or generic
             * @example network
             */
            category?: string;
            /**
             * @description Errors with this error_code
             * @example RATE_LIMITED
             */
            code?: string;
            /** @description Errors of this group, as /crawl-errors/groups has it, beside its error_code */
            fingerprint?: string;
            /**
             * Format: date-time
             * @description Errors of batches that were read then or later
             */
            from?: string;
            /**
             * @description Errors of this job
             * @example proj_xyz-brand-0
             */
            job_id?: string;
            /**
             * @description Errors of this platform, as announced
             * @example tiktok
             */
            platform?: string;
            /**
             * @description Errors of this project
             * @example proj_xyz
             */
            project_id?: string;
            /**
             * Format: date-time
             * @description Errors of batches that were read before
             */
            to?: string;
        };
        /**
         * Event
         * @description Something that happened to an article at a stage of the pipeline. Lengths are of UTF-8 text in bytes; null is the same as absent; unknown fields are passed over on the stream, and refused over HTTP. An event as a whole has at most 131072 bytes.
         * @example {
         *       "article_url": "https://example.com/article-123",
         *       "metadata": {
         *         "model_version": "v2.1",
         *         "quality_score": 78,
         *         "topics": [
         *           "crime",
         *           "news"
         *         ]
         *       },
         *       "occurred_at": "2026-02-10T14:30:00Z",
         *       "service_name": "classifier",
         *       "source_name": "example_com",
         *       "stage": "classified"
         *     }
         */
        Event: {
            /**
             * Format: uri
             * @description Absolute http or https URL of the article, without spaces or control characters.
             * @example https://example.com/article-123
             */
            article_url?: string | null;
            /**
             * Format: uri
             * @description Identifies the article instead of article_url, where several URLs lead to it.
             */
            canonical_url?: string | null;
            /**
             * Format: uri
             * @description Another name of article_url, which it gives way to.
             */
            content_url?: string | null;
            /** @description Together with the hash of the URL it identifies the event: the same pair counts once, however often it is sent, and is refused (key_conflict) from another stage or service. When absent: {service_name}:{stage}:{first 8 hex digits of the hash}:{occurred_at}, with {model_version}: before the time of a reclassification, and then {channel}@ where metadata.channel is a text that is not empty; in the channel % stands as %25 and : as %3A. */
            idempotency_key?: string | null;
            /** @description What the stage has to say: any JSON object of at most 65536 bytes. The fields named here are used by views; of another type they count as absent. */
            metadata?: {
                /**
                 * @description True: the event is history, and may be of any age.
                 * @example false
                 */
                backfilled?: unknown;
                /** @example articles:crime */
                channel?: unknown;
                /** @example article */
                content_type?: unknown;
                /** @example false */
                is_duplicate?: unknown;
                /** @example false */
                is_reclassification?: unknown;
                /** @example v2.1 */
                model_version?: unknown;
                /**
                 * @description Of a classified article.
                 * @example 78
                 */
                quality_score?: unknown;
                /**
                 * @description List of texts.
                 * @example [
                 *       "crime",
                 *       "news"
                 *     ]
                 */
                topics?: unknown;
            } | null;
            /**
             * @description Version of the metadata's form.
             * @default 1
             */
            metadata_schema_version: number | null;
            /**
             * Format: date-time
             * @description When it happened: RFC 3339 in UTC, with at most nine digits of fraction. Not in the future (5 s of clock skew are allowed) and at most 24 hours old, unless metadata.backfilled is true and the caller has the scope events:backfill.
             * @example 2026-02-10T14:30:00Z
             */
            occurred_at: string;
            /**
             * @description The service that reports it. No control characters.
             * @example classifier
             */
            service_name: string;
            /**
             * @description Where the article comes from. No control characters.
             * @example example_com
             */
            source_name: string;
            /**
             * @description One of the pipeline's stages.
             * @example crawled
             * @enum {string}
             */
            stage: "crawled" | "indexed" | "classified" | "routed" | "published";
            /** @description Of the trace that the event belongs to. When absent: metadata.trace_id, where that is a text of at most 256 bytes. */
            trace_id?: string | null;
        } | unknown | unknown;
        EventLogPage: {
            items: components["schemas"]["ProcessedEvent"][];
            /** @description For the next page; absent from the last */
            next_cursor?: string;
        };
        EventsPage: {
            /** @description Newest first, by occurred_at */
            events: components["schemas"]["StoredEvent"][] | null;
            /** @description For the next page; absent on the last one */
            next_cursor?: string;
            /** @description As in the funnel */
            notes?: components["schemas"]["FieldError"][] | null;
        };
        Execution: {
            /** Format: int64 */
            articles_count: number;
            /** Format: int64 */
            attempt: number;
            /** Format: date-time */
            completed_at: string | null;
            /**
             * Format: date-time
             * @description The due time that it is for
             */
            due_at: string;
            /** Format: double */
            duration_seconds: number | null;
            /** @description Why it failed or was cancelled, or, while it is queued, why its last attempt failed; of a success, which member of the result counts for nothing, and why */
            error?: string;
            /** @description Whether somebody asked for it */
            forced: boolean;
            /** Format: uuid */
            id: string;
            /**
             * Format: int64
             * @description Its item in the queue crawl
             */
            item_id: number | null;
            /** Format: uuid */
            job_id: string;
            /** Format: date-time */
            queued_at: string;
            /** Format: uuid */
            source_id: string;
            /** Format: date-time */
            started_at: string | null;
            /** @enum {string} */
            status: "queued" | "running" | "success" | "failed" | "cancelled";
        };
        ExecutionPage: {
            items: components["schemas"]["Execution"][];
            /** @description For the next page; absent from the last */
            next_cursor?: string;
        };
        FailureGroup: {
            /** Format: int64 */
            count: number;
            /** @description The error of one of them, as it was */
            example: string;
            /** @description The error with what differs made alike; without an error: that */
            fingerprint: string;
            /**
             * Format: date-time
             * @description When the first of them failed
             */
            first: string;
            /** Format: date-time */
            last: string;
        };
        Failures: {
            /** @description The 100 largest, the largest first */
            groups: components["schemas"]["FailureGroup"][];
            /**
             * Format: int64
             * @description Items in all groups
             */
            items: number;
            /** @description There are more items than the 100,000 of a queue that are looked at, the oldest */
            more: boolean;
        };
        FieldError: {
            /**
             * @description A stable name of the rule, for programs
             * @example time_future
             */
            code: string;
            /**
             * @description The field or parameter; empty when the content as a whole is meant
             * @example occurred_at
             */
            field: string;
            /**
             * @description The rule, for people
             * @example must not be in the future (5s of clock skew are allowed)
             */
            rule: string;
        };
        File: {
            /** Format: date-time */
            cancelled_at?: string;
            /** Format: date-time */
            created_at: string;
            /**
             * Format: int64
             * @description Items that are done at mysql-sender
             */
            done: number;
            /**
             * Format: int64
             * @description Items that have failed at some stage
             */
            failed: number;
            /** @example 20250101000000 */
            filename: string;
            /** Format: int32 */
            priority: number;
            /**
             * Format: int64
             * @description Its items
             */
            shards: number;
            /**
             * Format: int64
             * @description Items that a worker has now
             */
            started: number;
            /** Format: date-time */
            updated_at: string;
        };
        FileState: {
            /**
             * Format: date-time
             * @description Absent where the file was not cancelled
             */
            cancelled_at?: string;
            /** @example 20250101000000 */
            filename: string;
            /** @description By shard */
            shards: components["schemas"]["ShardState"][] | null;
        };
        Files: {
            files: components["schemas"]["File"][] | null;
            /** @description For the next page; absent from the last */
            next_cursor?: string;
        };
        FinishIngest: {
            /**
             * Format: double
             * @description Seconds until its shards stand in the queue of shard-splitter; default 0
             */
            delay_s?: number;
            /** @example 20250101000000 */
            filename: string;
        };
        Finished: {
            /** @example 20250101000000 */
            filename: string;
            /**
             * Format: int64
             * @description Items that were not done yet
             * @example 2
             */
            updated_rows: number;
        };
        Funnel: {
            /** @description Reclassifications are left out */
            exclude_reclassifications?: boolean;
            /**
             * Format: date-time
             * @description The window's begin, inclusive
             * @example 2026-02-10T00:00:00Z
             */
            from: string;
            /**
             * Format: date-time
             * @example 2026-02-10T15:42:00.003Z
             */
            generated_at: string;
            /** @description What may not be as the caller has meant it: a source that nobody has sent, and the nearest that somebody has; a begin that is earlier because the database does not answer */
            notes?: components["schemas"]["FieldError"][] | null;
            /**
             * @example today
             * @enum {string}
             */
            period: "today" | "24h" | "7d" | "30d" | "custom";
            /** @description Only this source; empty: all */
            source: string;
            /** @description All stages of the pipeline, in its order */
            stages: components["schemas"]["FunnelStage"][] | null;
            stream: components["schemas"]["StreamPosition"];
            /** @example UTC */
            timezone: string;
            /**
             * Format: date-time
             * @description When the window was looked at, for a period: it holds everything from its begin on. Its end, exclusive, for a custom window
             * @example 2026-02-10T15:42:00Z
             */
            to: string;
            /**
             * Format: double
             * @description Relative error of unique_articles: three standard errors of the sketch, 0 when exact
             * @example 0
             */
            unique_error: number;
            /**
             * @description Whether unique_articles are exact or estimates
             * @enum {string}
             */
            unique_method: "exact" | "sketch";
        };
        FunnelStage: {
            /**
             * Format: int64
             * @description Events, also repeated ones such as reclassifications
             * @example 75480
             */
            count: number;
            /** @example crawled */
            name: string;
            /**
             * Format: int64
             * @description Distinct articles; never more than count
             * @example 71200
             */
            unique_articles: number;
        };
        Gauge: {
            labels?: {
                [key: string]: string;
            };
            /** @example millrace_projector_behind */
            name: string;
            /** Format: double */
            value: number;
        };
        GroupLag: {
            /**
             * Format: int64
             * @description Messages of the group that are not yet counted
             * @example 0
             */
            events_behind: number;
            /**
             * Format: int64
             * @description Messages of the group up to this sequence are counted
             * @example 91220
             */
            folded_seq: number;
            /**
             * Format: int32
             * @example 0
             */
            group: number;
            /**
             * Format: double
             * @description For how long the first of them has been in the stream; 0 without one
             * @example 0
             */
            seconds_behind: number;
        };
        Health: {
            /**
             * @description What the operating system confines each embedded engine by
             * @example {
             *       "clickhouse": "landlock 7, seccomp"
             *     }
             */
            confinement?: {
                [key: string]: string;
            };
            /** @description What stored data was found to be lost and is not accepted yet */
            damage?: string[] | null;
            /** @description Systems, and parts of systems, that do not work, while everything else does */
            off?: components["schemas"]["Off"][] | null;
            /**
             * @example ok
             * @enum {string}
             */
            status: "ok" | "damaged";
            /** @example 1.0.0 */
            version: string;
            /** @description What the configuration puts at risk, and what is missing from stored data */
            warnings?: string[] | null;
        };
        History: {
            filename: string;
            /** @description For the next page; absent from the last */
            next_cursor?: string;
            /** @description The oldest first */
            transitions: components["schemas"]["Transition"][] | null;
        };
        ImportedSources: {
            /** Format: int64 */
            created: number;
            /** @description Which rules they break, of the first 1,000 lines */
            errors: components["schemas"]["RefusedLine"][];
            /** @description Columns of a table that are neither fields of a source nor settings of its job */
            ignored_columns: string[];
            /**
             * Format: int64
             * @description Lines that break a rule; all others have gone in
             */
            refused: number;
            /**
             * Format: int64
             * @description Lines with a URL that an earlier line has: they count for nothing
             */
            repeated: number;
            /** Format: int64 */
            unchanged: number;
            /** Format: int64 */
            updated: number;
        };
        Item: {
            /** @example 20250101000000 */
            filename: string;
            /**
             * Format: int32
             * @description The taking that is meant, as take has answered: nothing happens if another worker holds the item by now
             */
            generation?: number;
            /**
             * Format: int64
             * @example 0
             */
            shard: number;
        };
        ItemFilter: {
            /** @description Only shards of this file */
            filename?: string;
            /** @description Only items whose last error has this fingerprint, as /failures has it */
            fingerprint?: string;
            /** @description Of a user-defined queue */
            group?: string;
            /** @description Of a user-defined queue */
            key?: string;
            /**
             * @description A user-defined queue, or a stage of shards; may be left out where filename or search is given: every stage
             * @example mail
             */
            queue?: string;
            /** @description Only shards of files whose names contain this */
            search?: string;
            /** @description To retry: failed, dead or, in a user-defined queue, cancelled; by default failed and dead. To cancel: new, scheduled or started; by default all three */
            state?: string;
        };
        ItemOutcome: {
            filename: string;
            /** Format: int32 */
            generation?: number;
            /**
             * @description changed and repeated: the item is where it was asked to be
             * @enum {string}
             */
            outcome: "changed" | "repeated" | "forbidden" | "fenced" | "not_found" | "paused" | "full";
            /** Format: int32 */
            shard: number;
            /**
             * @description The item's status at the stage
             * @enum {string}
             */
            status?: "new" | "started" | "done" | "failed";
        };
        ItemStates: {
            /** Format: int64 */
            cancelled: number;
            /** Format: int64 */
            dead: number;
            /** Format: int64 */
            done: number;
            /** Format: int64 */
            failed: number;
            /** Format: int64 */
            new: number;
            /** Format: int64 */
            scheduled: number;
            /** Format: int64 */
            started: number;
        };
        Job: {
            /** @description Whether its settings follow those of its source */
            auto_managed: boolean;
            /**
             * Format: int64
             * @description The job rests after failed runs: for this time, doubled for each of them in a row
             * @example 30
             */
            backoff_base_minutes: number;
            /**
             * Format: int64
             * @description The longest that it rests
             * @example 1440
             */
            backoff_max_minutes: number;
            /**
             * Format: date-time
             * @description It does not run before, since runs have failed
             */
            backoff_until: string | null;
            /**
             * Format: int64
             * @description How many are caught up at most
             */
            catch_up_cap: number;
            /**
             * @description Which due times run that passed while no scheduler ran
             * @enum {string}
             */
            catch_up_policy: "none" | "one" | "recent" | "all";
            /**
             * Format: int64
             * @description Over how long these are spread
             */
            catch_up_spread_seconds: number;
            /**
             * Format: int64
             * @description Older due times are not caught up
             */
            catch_up_window_seconds: number;
            /** @description When it may run; null: always */
            crawl_window: components["schemas"]["CrawlWindow"] | null;
            /** Format: date-time */
            created_at: string;
            /**
             * Format: int64
             * @description How many runs in a row have failed
             */
            failure_count: number;
            /**
             * Format: date-time
             * @description When somebody asked for a run that has not begun yet
             */
            forced_at: string | null;
            /** Format: uuid */
            id: string;
            /**
             * Format: int64
             * @description From one due time to the next; of a cron schedule, the default of backoff_base_minutes
             * @example 30
             */
            interval_minutes: number;
            /**
             * @description The unit to show the interval in
             * @enum {string}
             */
            interval_type: "minutes" | "hours";
            /**
             * Format: int64
             * @description A run begins up to this long after its due time
             */
            jitter_seconds: number;
            /** Format: date-time */
            last_failure_at: string | null;
            /**
             * Format: int64
             * @description Attempts of a run before it has failed
             */
            max_attempts: number;
            /**
             * Format: int64
             * @description Runs of the job at a time
             * @example 2
             */
            max_concurrent: number;
            /**
             * Format: int64
             * @description How many links away from its URL the source is crawled
             */
            max_depth: number;
            /**
             * Format: date-time
             * @description When a manual job became auto-managed
             */
            migrated_at: string | null;
            /**
             * Format: date-time
             * @description Its next due time, or the end of its backoff where it runs then; null: it does not run, while it is paused or orphaned
             */
            next_run_at: string | null;
            /**
             * @description What made it
             * @enum {string}
             */
            origin: "event" | "reconciliation" | "manual";
            /**
             * @description What becomes of a due time while max_concurrent runs are under way
             * @enum {string}
             */
            overlap_policy: "skip" | "buffer_one" | "cancel_other" | "allow";
            /** @description The settings that people have set */
            override: components["schemas"]["Overrides"];
            /**
             * @description Of a paused job: who paused it; source: it is disabled
             * @enum {string}
             */
            paused_by?: "user" | "source";
            /**
             * Format: int64
             * @description Of jobs that are due, a higher one runs sooner
             * @example 75
             */
            priority: number;
            /**
             * Format: int64
             * @description How many of its runs wait in the queue for a worker
             */
            queued: number;
            /**
             * Format: int64
             * @description Requests a second that the source allows
             */
            rate_limit: number;
            /**
             * Format: int64
             * @description From a failed attempt of a run to the next, doubled for each further attempt, up to a day
             */
            retry_delay_seconds: number;
            /**
             * Format: int64
             * @description How many of its runs workers have
             */
            running: number;
            schedule: components["schemas"]["CrawlSchedule"];
            /** @description Where its pages have their parts: a JSON object */
            selectors: unknown;
            /** @description Whether the next due time is skipped, since somebody asked for it */
            skip_next: boolean;
            /** Format: uuid */
            source_id: string;
            /** @example Example News */
            source_name: string;
            /** @enum {string} */
            status: "pending" | "running" | "paused" | "failed" | "orphaned";
            /** Format: date-time */
            updated_at: string;
            /** @example https://example.com */
            url: string;
            /**
             * Format: int64
             * @description Grows with each change by an event or a person
             */
            version: number;
        };
        JobAudit: {
            /**
             * Format: int64
             * @description Due times with more than one run, and rows that no schedule says
             */
            doubled: number;
            /**
             * Format: int64
             * @description Due times by the schedules
             */
            due: number;
            /** @description The first 100 of those missed, and of those doubled */
            findings: components["schemas"]["AuditFinding"][];
            /**
             * Format: int64
             * @description Runs that somebody asked for, which no schedule says
             */
            forced: number;
            /** Format: date-time */
            from: string;
            /**
             * Format: int64
             * @description Jobs with a schedule in that time, also those that were deleted since
             */
            jobs: number;
            /**
             * Format: int64
             * @description Due times without a row in the ledger, or that ran without a run
             */
            missed: number;
            /** @description What became of them, by the ledger */
            outcomes: {
                [key: string]: number;
            };
            /**
             * Format: int64
             * @description Due times about which no scheduler has decided yet
             */
            pending: number;
            /** Format: date-time */
            to: string;
        };
        JobCommandBody: Record<string, never>;
        JobDetail: {
            /** @description Whether its settings follow those of its source */
            auto_managed: boolean;
            /**
             * Format: int64
             * @description The job rests after failed runs: for this time, doubled for each of them in a row
             * @example 30
             */
            backoff_base_minutes: number;
            /**
             * Format: int64
             * @description The longest that it rests
             * @example 1440
             */
            backoff_max_minutes: number;
            /**
             * Format: date-time
             * @description It does not run before, since runs have failed
             */
            backoff_until: string | null;
            /**
             * Format: int64
             * @description How many are caught up at most
             */
            catch_up_cap: number;
            /**
             * @description Which due times run that passed while no scheduler ran
             * @enum {string}
             */
            catch_up_policy: "none" | "one" | "recent" | "all";
            /**
             * Format: int64
             * @description Over how long these are spread
             */
            catch_up_spread_seconds: number;
            /**
             * Format: int64
             * @description Older due times are not caught up
             */
            catch_up_window_seconds: number;
            /** @description When it may run; null: always */
            crawl_window: components["schemas"]["CrawlWindow"] | null;
            /** Format: date-time */
            created_at: string;
            /**
             * Format: int64
             * @description How many runs in a row have failed
             */
            failure_count: number;
            /**
             * Format: date-time
             * @description When somebody asked for a run that has not begun yet
             */
            forced_at: string | null;
            health: components["schemas"]["CrawlHealth"];
            /** Format: uuid */
            id: string;
            /**
             * Format: int64
             * @description From one due time to the next; of a cron schedule, the default of backoff_base_minutes
             * @example 30
             */
            interval_minutes: number;
            /**
             * @description The unit to show the interval in
             * @enum {string}
             */
            interval_type: "minutes" | "hours";
            /**
             * Format: int64
             * @description A run begins up to this long after its due time
             */
            jitter_seconds: number;
            /** Format: date-time */
            last_failure_at: string | null;
            /**
             * Format: int64
             * @description Attempts of a run before it has failed
             */
            max_attempts: number;
            /**
             * Format: int64
             * @description Runs of the job at a time
             * @example 2
             */
            max_concurrent: number;
            /**
             * Format: int64
             * @description How many links away from its URL the source is crawled
             */
            max_depth: number;
            /**
             * Format: date-time
             * @description When a manual job became auto-managed
             */
            migrated_at: string | null;
            /**
             * Format: date-time
             * @description Its next due time, or the end of its backoff where it runs then; null: it does not run, while it is paused or orphaned
             */
            next_run_at: string | null;
            /**
             * @description What made it
             * @enum {string}
             */
            origin: "event" | "reconciliation" | "manual";
            /**
             * @description What becomes of a due time while max_concurrent runs are under way
             * @enum {string}
             */
            overlap_policy: "skip" | "buffer_one" | "cancel_other" | "allow";
            /** @description The settings that people have set */
            override: components["schemas"]["Overrides"];
            /**
             * @description Of a paused job: who paused it; source: it is disabled
             * @enum {string}
             */
            paused_by?: "user" | "source";
            /**
             * Format: int64
             * @description Of jobs that are due, a higher one runs sooner
             * @example 75
             */
            priority: number;
            /**
             * Format: int64
             * @description How many of its runs wait in the queue for a worker
             */
            queued: number;
            /**
             * Format: int64
             * @description Requests a second that the source allows
             */
            rate_limit: number;
            /**
             * Format: int64
             * @description From a failed attempt of a run to the next, doubled for each further attempt, up to a day
             */
            retry_delay_seconds: number;
            /**
             * Format: int64
             * @description How many of its runs workers have
             */
            running: number;
            schedule: components["schemas"]["CrawlSchedule"];
            /** @description Where its pages have their parts: a JSON object */
            selectors: unknown;
            /** @description Whether the next due time is skipped, since somebody asked for it */
            skip_next: boolean;
            /** @description null: there is none */
            source: components["schemas"]["JobSource"] | null;
            /** Format: uuid */
            source_id: string;
            /** @example Example News */
            source_name: string;
            /** @enum {string} */
            status: "pending" | "running" | "paused" | "failed" | "orphaned";
            /** Format: date-time */
            updated_at: string;
            /** @example https://example.com */
            url: string;
            /**
             * Format: int64
             * @description Grows with each change by an event or a person
             */
            version: number;
        };
        JobFilter: {
            /**
             * @description Only jobs that follow their sources, or that do not
             * @enum {string}
             */
            auto_managed?: "true" | "false";
            /**
             * @description Only jobs of sources that are enabled, or that are not
             * @enum {string}
             */
            enabled?: "true" | "false";
            /**
             * @description Only jobs whose source is in the list of sources, or is not
             * @enum {string}
             */
            has_source?: "true" | "false";
            /**
             * @description Only jobs of this health
             * @enum {string}
             */
            health?: "healthy" | "warning" | "failed" | "unknown";
            /**
             * Format: int64
             * @description Only jobs of this priority; -1: of any
             * @default -1
             */
            priority: number;
            /**
             * @description Only jobs of sources with this in their name or URL, in any case
             * @example news
             */
            q?: string;
            /** @description Only jobs of these sources: up to 100 ids, between commas */
            source_id?: string;
            /**
             * @description Only jobs of sources of this priority
             * @enum {string}
             */
            source_priority?: "low" | "normal" | "high" | "critical";
            /**
             * @description Only jobs in this status
             * @enum {string}
             */
            status?: "pending" | "running" | "paused" | "failed" | "orphaned";
        };
        JobLedgerPage: {
            items: components["schemas"]["Decision"][];
            /** @description For the next page; absent from the last */
            next_cursor?: string;
        };
        JobOfSource: {
            health: components["schemas"]["CrawlHealth"];
            job: components["schemas"]["Job"];
            /** @description The last 10 runs, the latest first */
            recent_executions: components["schemas"]["Execution"][];
            /** @description null: there is none */
            source: components["schemas"]["JobSource"] | null;
        };
        JobPage: {
            items: components["schemas"]["JobDetail"][];
            /** @description For the next page; absent from the last */
            next_cursor?: string;
            /**
             * Format: int64
             * @description How many jobs the filters select, on all pages
             */
            total: number;
        };
        JobSource: {
            enabled: boolean;
            /** Format: uuid */
            id: string;
            name: string;
            /** @enum {string} */
            priority: "low" | "normal" | "high" | "critical";
            url: string;
        };
        JobStats: {
            health: components["schemas"]["JobStatsHealthStruct"];
            /** @description All jobs by pending, running, paused, failed and orphaned */
            jobs_by_status: {
                [key: string]: number;
            };
            last_24h: components["schemas"]["JobStatsLast24hStruct"];
            /** @description Runs that have not ended */
            runs: components["schemas"]["JobStatsRunsStruct"];
            /** @description Of the last 24 hours, rounded */
            throughput: components["schemas"]["JobStatsThroughputStruct"];
            /** Format: int64 */
            total_jobs: number;
            /**
             * Format: int64
             * @description Sources in the list of sources
             */
            total_sources: number;
        };
        JobStatsHealthStruct: {
            /** Format: int64 */
            failed: number;
            /** Format: int64 */
            healthy: number;
            /**
             * Format: int64
             * @description No run has ended yet
             */
            unknown: number;
            /** Format: int64 */
            warning: number;
        };
        JobStatsLast24hStruct: {
            /** Format: int64 */
            articles_extracted: number;
            /** Format: int64 */
            failed_runs: number;
            /**
             * Format: double
             * @description In thousandths; null: there were no runs
             * @example 0.99
             */
            success_rate: number | null;
            /** Format: int64 */
            successful_runs: number;
            /**
             * Format: int64
             * @description Runs that ended with success or failed
             */
            total_runs: number;
        };
        JobStatsRunsStruct: {
            /**
             * Format: double
             * @description For how many seconds the oldest run that can be taken has waited; null: none waits
             */
            oldest_queued_age_s: number | null;
            /**
             * Format: int64
             * @description Runs that wait in the queue crawl for a worker
             */
            queued: number;
            /**
             * Format: int64
             * @description Runs that workers have
             */
            running: number;
            /** @description Says so when that is more than 5 minutes */
            warning?: string;
        };
        JobStatsThroughputStruct: {
            /** Format: int64 */
            articles_per_hour: number;
            /** Format: int64 */
            runs_per_hour: number;
        };
        Journey: {
            /**
             * @description The URL that url_hash is of
             * @example https://example.com/article-123
             */
            article_url: string;
            /** @description As events named it */
            canonical_url?: string;
            /** @example example.com */
            domain: string;
            /**
             * Format: double
             * @description From the first of the stages that the article reached to the last, 0 where clocks disagree; null with only one
             * @example 792
             */
            elapsed_seconds: number | null;
            /** @description Oldest first; the newest 1000 where there are more, or the newest with 8 MiB of metadata */
            events: components["schemas"]["StoredEvent"][] | null;
            /**
             * @description That of the first event
             * @example example_com
             */
            source_name: string;
            /** @description All stages of the pipeline, in its order */
            stages: components["schemas"]["JourneyStage"][] | null;
            /** @description Of the events, in their order */
            trace_ids: string[] | null;
            url_hash: string;
        };
        JourneyStage: {
            /**
             * Format: int64
             * @example 1
             */
            events: number;
            /**
             * Format: date-time
             * @description When the article first reached the stage; null if it has not
             * @example 2026-02-10T14:30:00Z
             */
            first_at: string | null;
            /**
             * Format: double
             * @description Seconds since the stage before it that the article reached, 0 where clocks disagree; null for the first
             * @example 12.5
             */
            latency_seconds: number | null;
            /** @example classified */
            name: string;
        };
        KeptLetter: {
            /**
             * @description The rule, for programs
             * @example stage_unknown
             */
            code: string;
            /**
             * @description The field that breaks the rule
             * @example stage
             */
            field?: string;
            /**
             * Format: int64
             * @example 7
             */
            id: number;
            /** @example EVENTS/91220 */
            origin?: string;
            /** @description The rule, for people */
            rule: string;
        };
        Letter: {
            /**
             * @description The rule that it breaks, for programs
             * @example stage_unknown
             */
            code?: string;
            /**
             * Format: int64
             * @description Bytes of the message's end that are lost: a message as large as messages may be has no room for the reason beside it
             */
            cut?: number;
            /**
             * Format: date-time
             * @description When it became a letter
             */
            dead_at: string;
            /**
             * @description The field that breaks it
             * @example stage
             */
            field?: string;
            /**
             * Format: int64
             * @description Its place in the DLQ stream
             * @example 7
             */
            id: number;
            /**
             * @description The stream that the message came from and its place there; also good as an id
             * @example EVENTS/91220
             */
            origin?: string;
            /**
             * @description The rule, for people
             * @example must be one of crawled, indexed
             */
            reason?: string;
            /**
             * Format: date-time
             * @description When its stream received the message
             */
            received_at: string;
            /**
             * Format: int64
             * @description Its place in that stream
             * @example 91220
             */
            seq?: number;
            /**
             * Format: int64
             * @description Bytes of its body
             * @example 298
             */
            size: number;
            /**
             * @description The stream that the message came from
             * @example EVENTS
             */
            stream?: string;
            /**
             * @description The subject that the message came on
             * @example events.cooked.a3
             */
            subject?: string;
        };
        LetterDetail: {
            /** @description The message's body */
            body: string;
            /**
             * @description base64 for a body that is not valid UTF-8
             * @enum {string}
             */
            body_encoding: "text" | "base64";
            /**
             * @description The rule that it breaks, for programs
             * @example stage_unknown
             */
            code?: string;
            /**
             * Format: int64
             * @description Bytes of the message's end that are lost: a message as large as messages may be has no room for the reason beside it
             */
            cut?: number;
            /**
             * Format: date-time
             * @description When it became a letter
             */
            dead_at: string;
            /**
             * @description The field that breaks it
             * @example stage
             */
            field?: string;
            /** @description All headers of the letter */
            headers: {
                [key: string]: string[] | null;
            };
            /**
             * Format: int64
             * @description Its place in the DLQ stream
             * @example 7
             */
            id: number;
            /**
             * @description The stream that the message came from and its place there; also good as an id
             * @example EVENTS/91220
             */
            origin?: string;
            /**
             * @description The rule, for people
             * @example must be one of crawled, indexed
             */
            reason?: string;
            /**
             * Format: date-time
             * @description When its stream received the message
             */
            received_at: string;
            /**
             * Format: int64
             * @description Its place in that stream
             * @example 91220
             */
            seq?: number;
            /**
             * Format: int64
             * @description Bytes of its body
             * @example 298
             */
            size: number;
            /**
             * @description The stream that the message came from
             * @example EVENTS
             */
            stream?: string;
            /**
             * @description The subject that the message came on
             * @example events.cooked.a3
             */
            subject?: string;
        };
        LetterFilter: {
            /**
             * @description Only letters that break this rule
             * @example stage_unknown
             */
            code?: string;
            /**
             * @description Only letters of which this field breaks a rule
             * @example stage
             */
            field?: string;
            /**
             * @description Only letters of messages that their stream received at or after this time, RFC 3339
             * @example 2026-02-10T00:00:00Z
             */
            since?: string;
            /**
             * @description Only letters of messages that came from this stream
             * @example EVENTS
             */
            stream?: string;
            /**
             * @description Only letters of messages that came on this subject; * and > are wildcards as in NATS
             * @example events.cooked.*
             */
            subject?: string;
            /**
             * @description Only letters of messages that their stream received before this time
             * @example 2026-02-11T00:00:00Z
             */
            until?: string;
        };
        LetterPage: {
            /** @description Without their bodies */
            letters: components["schemas"]["Letter"][] | null;
            /**
             * Format: int64
             * @description For the next page; absent on the last one. A page may have fewer letters than its limit, even none, and not be the last
             */
            next_cursor?: number;
        };
        LetterReport: {
            /**
             * Format: int64
             * @description Letters that are gone
             */
            deleted: number;
            /** @description Nothing was done: the numbers are what would be */
            dry_run?: boolean;
            /**
             * Format: int64
             * @description Those of them whose message an earlier replay had put there
             */
            duplicates: number;
            /**
             * Format: int64
             * @description Letters that stay, because their message would be refused again
             */
            kept: number;
            /** @description The first 100 letters that stay */
            kept_letters: components["schemas"]["KeptLetter"][] | null;
            /**
             * Format: int64
             * @description Letters that were selected
             */
            matched: number;
            /** @description Ids of which there is no letter */
            missing: string[] | null;
            /** @description There is more to do: send the same request again with this as its cursor */
            next_cursor?: string;
            /** @description Letters that stay, by the code of the rule */
            reasons: {
                [key: string]: number;
            };
            /**
             * Format: int64
             * @description Letters whose message is on its stream again
             */
            replayed: number;
        };
        LimitQueueRequestBody: {
            /**
             * Format: int64
             * @description Items out at a time, with all workers together; 0, the default: any number
             */
            concurrency?: number;
            /**
             * Format: int64
             * @description Items of one group out at a time, to 10,000; 0, the default: any number
             */
            concurrency_per_group?: number;
            /**
             * Format: int64
             * @description Attempts after which an item is dead; 0: any number
             */
            max_attempts?: number;
            /**
             * Format: int64
             * @description Live items, and finished items that are kept, 1 to 10,000,000; default 1000000
             */
            max_items?: number;
            /** @description Starts of items with the same key in any so many seconds; a count of 0, the default: any number */
            rate_per_key?: components["schemas"]["Rate"];
            /**
             * Format: double
             * @description Seconds for which finished items are kept, to 31,536,000; default 604800
             */
            retention_s?: number;
        };
        LimitRequestBody: {
            /**
             * Format: int64
             * @description Items started at a time by all workers together; 0: any number
             */
            concurrency?: number;
            /**
             * Format: int64
             * @description Attempts after which an item that is given back fails, and is dead; 0: any number
             */
            max_attempts?: number;
        };
        LiveBatches: {
            /** Format: int64 */
            batches: number;
            /**
             * Format: int64
             * @description Batches for which other content came
             */
            conflicts: number;
            /**
             * Format: int64
             * @description Items: ok, error and retrying together
             */
            content_count: number;
            /** Format: int64 */
            error: number;
            /** @description Items that are errors at present by code; the most frequent first, up to 1,000 */
            errors: components["schemas"]["CodeCount"][];
            /**
             * Format: date-time
             * @description null: there is no batch
             */
            first_read_at: string | null;
            /**
             * Format: date-time
             * @description null: there is no batch
             */
            last_read_at: string | null;
            /** @description The 20 batches that were read last, the last first */
            newest: components["schemas"]["CrawlBatch"][];
            /** Format: int64 */
            ok: number;
            /** @description By when batches were read, the earliest first; parts without a batch are left out */
            over_time: components["schemas"]["BatchesStep"][];
            /** Format: int64 */
            retrying: number;
            /**
             * Format: int64
             * @description How long the parts of over_time are
             */
            step_seconds: number;
            /**
             * Format: double
             * @description ok of content_count, from 0 to 1; null: there are no items
             */
            success_rate: number | null;
            /**
             * Format: int64
             * @description Batches with warnings
             */
            warned: number;
        };
        LiveError: {
            error: components["schemas"]["Problem"] | null;
            /**
             * @description As in the request; empty in an event stream
             * @example a
             */
            id: string;
        };
        LiveLag: {
            groups: components["schemas"]["GroupLag"][] | null;
            /**
             * Format: int64
             * @description Sequence of the newest message in the event stream
             * @example 91220
             */
            last_seq: number;
        };
        LiveLetter: {
            /**
             * @description The rule that it breaks, for programs
             * @example stage_unknown
             */
            code?: string;
            /**
             * Format: date-time
             * @description When it became a letter
             */
            dead_at: string;
            /**
             * @description The field that breaks it
             * @example stage
             */
            field?: string;
            /**
             * Format: int64
             * @description Its place in the DLQ stream
             * @example 7
             */
            id: number;
            /**
             * @description The stream that the message came from and its place there
             * @example EVENTS/91220
             */
            origin?: string;
            /**
             * @description The rule, for people
             * @example must be one of crawled, indexed
             */
            reason?: string;
            /**
             * @description The subject that the message came on
             * @example events.cooked.a3
             */
            subject?: string;
        };
        LiveLetters: {
            /**
             * Format: int64
             * @description Dead letters in all
             */
            count: number;
            /** @description The newest ones, the newest first, without their bodies */
            newest: components["schemas"]["LiveLetter"][] | null;
        };
        LiveQueue: {
            /**
             * Format: int64
             * @description Items that were cancelled; of shards, they count as dead
             */
            cancelled: number;
            /**
             * Format: int64
             * @description Failed items without attempts left; of shards, cancelled ones as well
             */
            dead: number;
            /**
             * Format: int64
             * @description Items that can be taken later
             */
            delayed: number;
            /** Format: int64 */
            done: number;
            /**
             * Format: int64
             * @description Items that have failed, dead and cancelled ones included
             */
            failed: number;
            /**
             * @description Of the queue; of a queue of shards, the stage
             * @example shard-worker
             */
            name: string;
            /**
             * Format: date-time
             * @description Since when the oldest ready item has been ready; null in an empty queue
             */
            oldest_since: string | null;
            paused: boolean;
            /**
             * Format: int64
             * @description Items that can be taken now
             */
            ready: number;
            /**
             * Format: int64
             * @description Items that a worker has
             */
            running: number;
        };
        LiveQueues: {
            queues: components["schemas"]["LiveQueue"][] | null;
        };
        LiveSnapshot: {
            batches?: components["schemas"]["LiveBatches"];
            dlq?: components["schemas"]["LiveLetters"];
            /** @description What seq belongs to: another one after a restart of the server */
            epoch: string;
            funnel?: components["schemas"]["Funnel"];
            /** @description Of the subscription; absent from an event stream */
            id?: string;
            lag?: components["schemas"]["LiveLag"];
            queues?: components["schemas"]["LiveQueues"];
            /** @description Grows with each snapshot */
            seq: number;
            /** @description The reader has the newest snapshot */
            unchanged?: boolean;
            uploads?: components["schemas"]["UploadPage"];
        };
        MadeCrawlSource: {
            /** Format: date-time */
            created_at: string;
            /** @description Whether it is crawled */
            enabled: boolean;
            /** Format: uuid */
            id: string;
            /**
             * Format: int64
             * @description How many links away from its URL it is crawled
             * @example 3
             */
            max_depth: number;
            /**
             * @description What people call it, 1 to 255 bytes
             * @example Example News
             */
            name: string;
            /**
             * @description How urgent its crawls are
             * @enum {string}
             */
            priority: "low" | "normal" | "high" | "critical";
            /**
             * Format: int64
             * @description Requests a second that it allows
             * @example 10
             */
            rate_limit: number;
            /** @description Where its pages have their parts, by the name of the part: a JSON object */
            selectors: unknown;
            /**
             * Format: date-time
             * @description When a field was last changed
             */
            updated_at: string;
            /**
             * @description Where its crawl begins
             * @example https://example.com
             */
            url: string;
        };
        MadeJob: {
            /** @description Whether its settings follow those of its source */
            auto_managed: boolean;
            /**
             * Format: int64
             * @description The job rests after failed runs: for this time, doubled for each of them in a row
             * @example 30
             */
            backoff_base_minutes: number;
            /**
             * Format: int64
             * @description The longest that it rests
             * @example 1440
             */
            backoff_max_minutes: number;
            /**
             * Format: date-time
             * @description It does not run before, since runs have failed
             */
            backoff_until: string | null;
            /**
             * Format: int64
             * @description How many are caught up at most
             */
            catch_up_cap: number;
            /**
             * @description Which due times run that passed while no scheduler ran
             * @enum {string}
             */
            catch_up_policy: "none" | "one" | "recent" | "all";
            /**
             * Format: int64
             * @description Over how long these are spread
             */
            catch_up_spread_seconds: number;
            /**
             * Format: int64
             * @description Older due times are not caught up
             */
            catch_up_window_seconds: number;
            /** @description When it may run; null: always */
            crawl_window: components["schemas"]["CrawlWindow"] | null;
            /** Format: date-time */
            created_at: string;
            /**
             * Format: int64
             * @description How many runs in a row have failed
             */
            failure_count: number;
            /**
             * Format: date-time
             * @description When somebody asked for a run that has not begun yet
             */
            forced_at: string | null;
            /** Format: uuid */
            id: string;
            /**
             * Format: int64
             * @description From one due time to the next; of a cron schedule, the default of backoff_base_minutes
             * @example 30
             */
            interval_minutes: number;
            /**
             * @description The unit to show the interval in
             * @enum {string}
             */
            interval_type: "minutes" | "hours";
            /**
             * Format: int64
             * @description A run begins up to this long after its due time
             */
            jitter_seconds: number;
            /** Format: date-time */
            last_failure_at: string | null;
            /**
             * Format: int64
             * @description Attempts of a run before it has failed
             */
            max_attempts: number;
            /**
             * Format: int64
             * @description Runs of the job at a time
             * @example 2
             */
            max_concurrent: number;
            /**
             * Format: int64
             * @description How many links away from its URL the source is crawled
             */
            max_depth: number;
            /**
             * Format: date-time
             * @description When a manual job became auto-managed
             */
            migrated_at: string | null;
            /**
             * Format: date-time
             * @description Its next due time, or the end of its backoff where it runs then; null: it does not run, while it is paused or orphaned
             */
            next_run_at: string | null;
            /**
             * @description What made it
             * @enum {string}
             */
            origin: "event" | "reconciliation" | "manual";
            /**
             * @description What becomes of a due time while max_concurrent runs are under way
             * @enum {string}
             */
            overlap_policy: "skip" | "buffer_one" | "cancel_other" | "allow";
            /** @description The settings that people have set */
            override: components["schemas"]["Overrides"];
            /**
             * @description Of a paused job: who paused it; source: it is disabled
             * @enum {string}
             */
            paused_by?: "user" | "source";
            /**
             * Format: int64
             * @description Of jobs that are due, a higher one runs sooner
             * @example 75
             */
            priority: number;
            /**
             * Format: int64
             * @description How many of its runs wait in the queue for a worker
             */
            queued: number;
            /**
             * Format: int64
             * @description Requests a second that the source allows
             */
            rate_limit: number;
            /**
             * Format: int64
             * @description From a failed attempt of a run to the next, doubled for each further attempt, up to a day
             */
            retry_delay_seconds: number;
            /**
             * Format: int64
             * @description How many of its runs workers have
             */
            running: number;
            schedule: components["schemas"]["CrawlSchedule"];
            /** @description Where its pages have their parts: a JSON object */
            selectors: unknown;
            /** @description Whether the next due time is skipped, since somebody asked for it */
            skip_next: boolean;
            /** Format: uuid */
            source_id: string;
            /** @example Example News */
            source_name: string;
            /** @enum {string} */
            status: "pending" | "running" | "paused" | "failed" | "orphaned";
            /** Format: date-time */
            updated_at: string;
            /** @example https://example.com */
            url: string;
            /**
             * Format: int64
             * @description Grows with each change by an event or a person
             */
            version: number;
        };
        MigrateJobsRequestBody: Record<string, never>;
        MigratedJob: {
            /**
             * @description leave_job: its source does not exist; create_job: of a source that is enabled and has none
             * @enum {string}
             */
            action: "migrate_job" | "leave_job" | "create_job";
            /**
             * @description How its settings change
             * @example [
             *       "interval_minutes: 7 → 30"
             *     ]
             */
            changes: string[];
            /** Format: uuid */
            job_id?: string;
            /** Format: uuid */
            source_id: string;
            source_name: string;
        };
        MigratedJobs: {
            dry_run: boolean;
            jobs: components["schemas"]["MigratedJob"][];
        };
        ModeChange: {
            /** @description Whether messages with data_ref are taken */
            legacy_mode?: boolean;
            /** @description Whether data.collected events are taken */
            new_mode?: boolean;
            /**
             * Format: double
             * @description The share of jobs whose data.collected events are taken
             */
            new_mode_share?: number;
        };
        ModelVersion: {
            /**
             * Format: int64
             * @description Distinct articles
             * @example 10002
             */
            articles_classified: number;
            /**
             * Format: double
             * @description null without a score
             * @example 74
             */
            avg_quality_score: number | null;
            /** @description Share of the articles that have a topic, of the 1000 largest topics; the shares add up to more than 1 where articles have several */
            topic_distribution: {
                [key: string]: number;
            };
            /** @example v2.1 */
            version: string;
            /**
             * Format: int64
             * @description Whole days since the version's earliest event
             * @example 5
             */
            version_age_days: number;
        };
        MoveItem: {
            /**
             * Format: double
             * @description With retry, release, again: seconds until the item stands in the queue; with done: until it stands in the next
             */
            delay_s?: number;
            /** @description With fail and again: why */
            error?: string;
            /** @example 20250101000000 */
            filename: string;
            /**
             * Format: int32
             * @description The taking that is meant, as take has answered: nothing happens if another worker holds the item by now
             */
            generation?: number;
            /**
             * Format: double
             * @description With start and extend: seconds, 1 to 86,400, after which the item is new again unless it has moved; without it a start has no end
             */
            lease_s?: number;
            /**
             * Format: int64
             * @example 0
             */
            shard: number;
            /** @description Who does the work; one that is named cannot report for another, and may start what it has started; not nats */
            worker?: string;
        };
        MoveQueueItemRequestBody: {
            /**
             * @description With fail, of a row of an upload: throttled (429), server (5xx), network, or invalid, which leaves no other attempt. It says how long the row waits
             * @example throttled
             */
            class?: string;
            /**
             * Format: double
             * @description With fail, again, release: seconds until it can be taken again
             */
            delay_s?: number;
            /**
             * @description With fail, of a row of an upload: whose error it is
             * @example shop.example
             */
            domain?: string;
            /** @description With fail, again, release: why */
            error?: string;
            /**
             * Format: int32
             * @description The taking that is meant, as take has answered, or the message that is, as it says
             */
            generation?: number;
            /**
             * Format: double
             * @description With extend: seconds from now; default that of the queue, and no other for an item that was pulled over NATS
             */
            lease_s?: number;
            /** @description With done, of a row of an upload: there is no result */
            not_found?: boolean;
            /** @description With fail: no other attempt */
            permanent?: boolean;
            /** @description With extend: what the worker is at, in up to 500 bytes; empty: as before */
            progress?: string;
            /** @description With done: a JSON document of up to 64 KiB that is kept with the item. Of a row of an upload: an object of up to 1 MiB */
            result?: unknown;
            /**
             * Format: double
             * @description With fail, of a row of an upload: seconds that it waits at least
             */
            retry_after_s?: number;
            /** @description With done, of a row of an upload: it needs no result */
            skipped?: boolean;
            /** @description Who has it; a worker that is named cannot report for another */
            worker?: string;
        };
        Moved: {
            /** @example 20250101000000 */
            filename: string;
            /**
             * Format: int32
             * @example 0
             */
            shard: number;
            /** @example shard-worker */
            stage: string;
            /**
             * @description The item's status at the stage
             * @example done
             * @enum {string}
             */
            status: "new" | "started" | "done" | "failed";
        };
        MovedCount: {
            /**
             * Format: int64
             * @description Items that moved; as many as the limit: there may be more
             */
            count: number;
        };
        MovedQueueItem: {
            /** Format: int32 */
            attempts: number;
            /** Format: int32 */
            generation: number;
            /** Format: int64 */
            id: number;
            /** @enum {string} */
            state: "new" | "scheduled" | "started" | "done" | "failed" | "dead" | "cancelled";
        };
        NextRun: {
            /**
             * Format: int64
             * @description Seconds by which the clocks of the zone are set ahead between the due time before and this one; below 0: back
             */
            clock_shift_s: number;
            /**
             * Format: date-time
             * @description With the offset of the schedule's zone then
             * @example 2026-03-29T03:00:00+02:00
             */
            due_at: string;
            /** @description Whether it is in the crawl window */
            in_window: boolean;
            /**
             * @description What becomes of it as things are now, as the ledger will have it
             * @enum {string}
             */
            outcome: "ran" | "skipped" | "outside_window" | "backoff" | "paused";
            /**
             * Format: date-time
             * @description When it runs: at the due time, or at the end of a backoff; null: it does not
             */
            run_at: string | null;
        };
        NoMembers: Record<string, never>;
        Off: {
            /**
             * @description The part that fails, and is tried again until it works. Without it, all of the system is off
             * @example events
             */
            part?: string;
            /** @description Why it is off */
            reason: string;
            /**
             * Format: date-time
             * @description When the part failed first
             */
            since?: string;
            /** @example jobs */
            system: string;
        };
        Overrides: {
            /**
             * Format: int64
             * @description The job rests after failed runs: for this time, doubled for each of them in a row; default the interval
             */
            backoff_base_minutes?: number;
            /**
             * Format: int64
             * @description The longest that it rests; default 1440
             */
            backoff_max_minutes?: number;
            /** Format: int64 */
            catch_up_cap?: number;
            /** @enum {string} */
            catch_up_policy?: "none" | "one" | "recent" | "all";
            /** Format: int64 */
            catch_up_spread_seconds?: number;
            /** Format: int64 */
            catch_up_window_seconds?: number;
            crawl_window?: components["schemas"]["CrawlWindow"];
            /**
             * @description A cron expression of five fields, in place of an interval
             * @example 0 6 * * 1-5
             */
            cron?: string;
            /**
             * Format: int64
             * @description From one due time to the next
             */
            interval_minutes?: number;
            /** Format: int64 */
            jitter_seconds?: number;
            /**
             * Format: int64
             * @description Attempts of a run before it has failed; default 1
             */
            max_attempts?: number;
            /** Format: int64 */
            max_concurrent?: number;
            /** @enum {string} */
            overlap_policy?: "skip" | "buffer_one" | "cancel_other" | "allow";
            /** Format: int64 */
            priority?: number;
            /**
             * Format: int64
             * @description From a failed attempt of a run to the next, doubled for each further attempt; default 60
             */
            retry_delay_seconds?: number;
            /**
             * @description Of the cron expression; default UTC
             * @example Europe/Berlin
             */
            time_zone?: string;
        };
        PendingItem: {
            /** Format: int32 */
            attempts: number;
            /** @example 0199f0a2-7c1e-7000-8000-000000000001-7 */
            id: string;
            /** @description The columns that the mapping names for title, brand and sku, and else the first ones, or the members title, brand and sku of JSON lines; each cut at 200 characters */
            inputSummary: {
                [key: string]: string;
            };
            job_id: string;
            /**
             * Format: int32
             * @description Those of them with a final status
             */
            job_processed_items: number;
            /**
             * @description The state of the upload
             * @enum {string}
             */
            job_state: "QUEUED" | "RUNNING" | "PAUSED" | "DONE" | "FAILED";
            /**
             * Format: int32
             * @description Items of the upload
             */
            job_total_items: number;
            /**
             * @description The format of the file
             * @enum {string}
             */
            job_type: "csv" | "ndjson" | "xlsx" | "zip";
            /** Format: date-time */
            locked_at: string | null;
            /** @description The worker that holds it */
            locked_by: string | null;
            /** Format: int32 */
            row_no: number;
            /** @enum {string} */
            status: "PENDING" | "PROCESSING" | "DONE" | "ERROR" | "NOT_FOUND" | "SKIPPED";
            /** Format: date-time */
            updated_at: string;
            /** @description Whose upload it is */
            user_id: string;
            /**
             * Format: int32
             * @description Grows with each change
             */
            version: number;
        };
        PendingPage: {
            items: components["schemas"]["PendingItem"][];
            /** @description For after; absent from the last page */
            next?: string;
        };
        PreviewedRow: {
            /** @description Of CSV and XLSX */
            cells?: string[] | null;
            /** @description The rule that the row breaks */
            error?: string;
            /** Format: int64 */
            line: number;
            /** @description Of JSON lines */
            object?: unknown;
            /** Format: int64 */
            row_no: number;
        };
        Prioritized: {
            filename: string;
            /** Format: int32 */
            priority: number;
        };
        PriorityRequestBody: {
            /** Format: int32 */
            priority: number;
        };
        Problem: {
            /**
             * @description What went wrong in this case
             * @example the event breaks a rule
             */
            detail?: string;
            /** @description The fields that break rules */
            errors?: components["schemas"]["FieldError"][] | null;
            /**
             * Format: int64
             * @description The HTTP status code
             * @example 400
             */
            status: number;
            /**
             * @description The status in words
             * @example Bad Request
             */
            title: string;
            /**
             * @description A URI reference that identifies the kind of problem
             * @example about:blank
             */
            type: string;
        } & {
            [key: string]: unknown;
        };
        Process: {
            /** @description Alerts whose conditions hold for this process */
            alerts?: components["schemas"]["Alert"][] | null;
            /** @description Whether it has answered now; without that, nothing below is known */
            answers: boolean;
            /** @description As at /ready */
            checks?: components["schemas"]["CheckStatus"][] | null;
            damage?: string[] | null;
            /** @description What it knows of lag, queues and dead letters */
            gauges?: components["schemas"]["Gauge"][] | null;
            /** @example node-3 */
            host: string;
            /** @description Of this run of the process */
            id: string;
            /** @description As at /health */
            off?: components["schemas"]["Off"][] | null;
            ready: boolean;
            roles: string[];
            /**
             * Format: date-time
             * @description When it has last said that it is there
             */
            seen_at: string;
            /** Format: date-time */
            started_at: string;
            /** @example 1.0.0 */
            version: string;
            warnings?: string[] | null;
        };
        ProcessedEvent: {
            /**
             * @description What it changed, or why it changed nothing
             * @example rate_limit: 10 → 5
             */
            detail: string;
            /** Format: uuid */
            event_id: string;
            /** @enum {string} */
            event_type: "SOURCE_CREATED" | "SOURCE_UPDATED" | "SOURCE_DELETED" | "SOURCE_ENABLED" | "SOURCE_DISABLED";
            job_id: string | null;
            /**
             * @description stale: a later event had said everything; waiting: its source is not known yet; dead: nor did it become known
             * @enum {string}
             */
            outcome: "applied" | "stale" | "waiting" | "dead";
            /** Format: date-time */
            processed_at: string;
            /**
             * Format: int64
             * @description On the stream SOURCES
             */
            sequence: number;
            /** Format: uuid */
            source_id: string;
            /**
             * Format: date-time
             * @description When it happened, as it says
             */
            timestamp: string;
        };
        PublishingStats: {
            /** @description Events of the publish stage by metadata.channel */
            by_channel: {
                [key: string]: number;
            };
            /**
             * Format: int64
             * @description total_routed without total_published, also those under way; 0 where more was published
             * @example 0
             */
            failed_publishes: number;
            /**
             * Format: int64
             * @description Events; as count in the funnel
             * @example 11990
             */
            total_published: number;
            /**
             * Format: int64
             * @description Events; as count in the funnel
             * @example 11990
             */
            total_routed: number;
        };
        PurgeLetters: {
            /** @description All letters; instead of ids and filter */
            all?: boolean;
            /** @description next_cursor of the answer before, to go on */
            cursor?: string;
            /** @description Only say what would be done */
            dry_run?: boolean;
            /** @description Letters that pass all of these; instead of ids and all */
            filter?: components["schemas"]["LetterFilter"];
            /**
             * @description Letters, each by its number or by the stream and place of its message; instead of filter and all
             * @example [
             *       "7",
             *       "EVENTS/91220"
             *     ]
             */
            ids?: string[] | null;
            /**
             * Format: int64
             * @description How many letters of a filter or of all this request takes at most
             * @default 1000
             */
            limit: number;
        };
        PurgeRequestBody: {
            /**
             * Format: int64
             * @description How many files at most
             * @default 1000
             */
            limit: number;
            /**
             * Format: double
             * @description Seconds since their last change; at least 60
             * @example 604800
             */
            older_than_s: number;
        };
        Purged: {
            /**
             * Format: int64
             * @description Files that were dropped; as many as the limit: there may be more
             */
            files: number;
        };
        Queue: {
            items: components["schemas"]["QueueItem"][] | null;
            /** @description For the next page; absent from the last */
            next_cursor?: string;
            /** @example shard-worker */
            stage: string;
        };
        QueueItem: {
            /**
             * Format: date-time
             * @example 2025-01-01T00:00:00Z
             */
            created_at: string;
            /** @example 20250101000000 */
            filename: string;
            /**
             * Format: int32
             * @example 0
             */
            shard: number;
        };
        QueueItemName: {
            /** Format: int64 */
            id: number;
            key?: string;
        };
        QueueState: {
            /**
             * Format: int64
             * @description Items started at a time at most; 0: any number
             */
            concurrency: number;
            /**
             * Format: int64
             * @description Failed items without attempts left, or cancelled
             */
            dead: number;
            /**
             * Format: int64
             * @description Items that can be taken later
             */
            delayed: number;
            /**
             * Format: int64
             * @description Items that can be taken now
             */
            depth: number;
            /**
             * Format: int64
             * @description Attempts after which an item is dead; 0: any number
             */
            max_attempts: number;
            /**
             * Format: double
             * @description Seconds since the one that has stood in the queue longest came into it; 0 in an empty queue
             */
            oldest_age_s: number;
            paused: boolean;
        };
        QueueWebhook: {
            /** Format: date-time */
            changed_at: string;
            /**
             * Format: int64
             * @description Requests that each server sends at a time, at most
             */
            concurrency: number;
            /** @example enrich */
            queue: string;
            /**
             * @description Signs requests. Only where it was made for this request: it is not told again
             * @example whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw
             */
            secret?: string;
            /**
             * Format: double
             * @description Seconds that an answer may take
             */
            timeout_s: number;
            /** @example https://shop.example/enrich */
            url: string;
        };
        Rate: {
            /**
             * Format: int64
             * @description Starts, to 10,000; 0: any number
             */
            count: number;
            /**
             * Format: double
             * @description Seconds, 1 to 86,400
             */
            per_s?: number;
        };
        Readiness: {
            checks: components["schemas"]["CheckStatus"][] | null;
            /** @enum {string} */
            status: "ready" | "not ready";
        };
        Reclassified: {
            /** @description Categories of error codes */
            categories: components["schemas"]["Reclassifieds"];
            /** @description Whether nothing was changed */
            dry_run: boolean;
            /** @description Projects of jobs */
            projects: components["schemas"]["Reclassifieds"];
        };
        Reclassifieds: {
            /** @description The changes of most outcomes first, up to 100 */
            changes: components["schemas"]["ReclassifyOf"][];
            /**
             * Format: int64
             * @description How many jobs, or codes, had another value
             */
            count: number;
            /**
             * Format: int64
             * @description How many outcomes of items they have
             */
            rows: number;
        };
        ReclassifyOf: {
            /** @description What was stored; empty: none */
            from: string;
            /**
             * @description The job, or the error code
             * @example proj_xyz-brand-0
             */
            of: string;
            /** Format: int64 */
            rows: number;
            /**
             * @description What the present rules say; empty: none
             * @example proj_xyz
             */
            to: string;
        };
        ReclassifyRequest: {
            /** @description Change nothing, and say what would be changed */
            dry_run?: boolean;
        };
        ReconcileJobsRequestBody: {
            /** @description Change nothing, and say what would be done */
            dry_run?: boolean;
        };
        ReconciledJobs: {
            differences: components["schemas"]["Difference"][];
            dry_run: boolean;
        };
        RefusedLine: {
            /**
             * @description A stable name of the rule, for programs
             * @example time_future
             */
            code: string;
            /**
             * @description The field or parameter; empty when the content as a whole is meant
             * @example occurred_at
             */
            field: string;
            /**
             * Format: int64
             * @description From 1
             */
            line: number;
            /**
             * @description The rule, for people
             * @example must not be in the future (5s of clock skew are allowed)
             */
            rule: string;
        };
        RegisterFile: {
            /**
             * @description The prefix of the file's name before .event-ingest.txt, which is taken off where it is given; 1 to 255 bytes without slashes and control characters
             * @example 20250101000000
             */
            filename: string;
            /**
             * Format: int32
             * @description Of a file that is new: items of higher ones are taken first
             */
            priority?: number;
            /**
             * @description Its shards: 1 to 4,096 numbers; a repeated one counts once
             * @example [
             *       0,
             *       1
             *     ]
             */
            shards: number[];
        };
        Registered: {
            /** @description Whether any item was made */
            created: boolean;
            /** @example 20250101000000 */
            filename: string;
            /**
             * @description Each once
             * @example [
             *       0,
             *       1
             *     ]
             */
            shards: number[] | null;
        };
        Rejected: {
            /** @description The first rule that it breaks */
            error: components["schemas"]["FieldError"];
            /** @description All rules that it breaks, one for each field */
            errors: components["schemas"]["FieldError"][] | null;
            /**
             * Format: int64
             * @description Its place in the request, from 0; blank lines do not count
             */
            index: number;
        };
        RejectedRow: {
            /** @description Its first 64 KiB in base64, where they are no text */
            bytes?: string;
            /**
             * @description The rule that it breaks
             * @example cells_count
             */
            code: string;
            /** @example the row has 9 cells, and the header has 8 */
            error: string;
            /**
             * Format: int64
             * @description On which it begins; 0: not known
             */
            line: number;
            /**
             * Format: int32
             * @description Its place among the rows of the file; from 1
             */
            row_no: number;
            /** @description Its first 64 KiB; null where they are no text, see bytes */
            text: string | null;
        };
        RejectedRowPage: {
            items: components["schemas"]["RejectedRow"][];
            /** @description For the next page; absent from the last */
            next_cursor?: string;
        };
        ReplayLetters: {
            /** @description All letters; instead of ids and filter */
            all?: boolean;
            /** @description Mark events that are too old to be taken (24 hours) as backfilled, and so take them */
            as_backfill?: boolean;
            /** @description next_cursor of the answer before, to go on */
            cursor?: string;
            /** @description Only say what would be done */
            dry_run?: boolean;
            /** @description Letters that pass all of these; instead of ids and all */
            filter?: components["schemas"]["LetterFilter"];
            /**
             * @description Letters, each by its number or by the stream and place of its message; instead of filter and all
             * @example [
             *       "7",
             *       "EVENTS/91220"
             *     ]
             */
            ids?: string[] | null;
            /**
             * Format: int64
             * @description How many letters of a filter or of all this request takes at most
             * @default 1000
             */
            limit: number;
        };
        ReplayQueueItemRequestBody: {
            /**
             * Format: int32
             * @description That of the item as it was read: one that has moved since stays as it is
             */
            generation: number;
            /** @description JSON of up to 64 KiB */
            payload: unknown;
        };
        ReprocessedItems: {
            /** @description Ids of items, where scope is items */
            itemIds?: string[] | null;
            /** @description Begin attempts anew. Else items that are ERROR or NOT_FOUND need to have attempts left */
            resetAttempts?: boolean;
            /**
             * @description All items of the upload, or those of itemIds; default job
             * @enum {string}
             */
            scope?: "job" | "items";
            /** @description Only items with one of these; default ERROR and NOT_FOUND */
            statuses?: ("DONE" | "ERROR" | "NOT_FOUND" | "SKIPPED")[] | null;
        };
        ReprocessedUpload: {
            jobId: string;
            /** @description There may be more: ask again */
            more: boolean;
            /**
             * Format: int32
             * @description Items that are pending, behind it
             */
            pending: number;
            /**
             * @description Of the upload, behind it
             * @enum {string}
             */
            queue_state: "QUEUED" | "RUNNING" | "PAUSED" | "DONE" | "FAILED";
            /**
             * Format: int64
             * @description Items that are PENDING now
             */
            reprocessed: number;
        };
        Request: {
            /** @description Of the last snapshot that the reader has; empty: it has none */
            epoch?: string;
            /** @description Leave out events whose metadata says is_reclassification */
            exclude_reclassifications?: boolean;
            /** @description The client's name for the subscription, up to 64 bytes */
            id: string;
            /**
             * @description Only this upload; empty: all
             * @example 0199f0a2-7c1e-7000-8000-000000000001
             */
            jobId?: string;
            /**
             * @description Only batches of this job; empty: all
             * @example proj_xyz-brand-0
             */
            job_id?: string;
            /**
             * @description What to do
             * @enum {string}
             */
            op: "subscribe" | "unsubscribe";
            /**
             * @description Default today
             * @enum {string}
             */
            period?: "today" | "24h" | "7d" | "30d";
            /**
             * @description Only batches of this platform, as announced; empty: all
             * @example tiktok
             */
            platform?: string;
            /**
             * @description Only uploads with this processor; empty: any
             * @example copy
             */
            processor?: string;
            /**
             * @description Only batches of this project; empty: all
             * @example proj_xyz
             */
            project_id?: string;
            /**
             * @description Only uploads in this state; empty: any
             * @enum {string}
             */
            queue_state?: "" | "QUEUED" | "RUNNING" | "PAUSED" | "DONE" | "FAILED";
            /** @description Of the last snapshot that the reader has */
            seq?: number;
            /** @description Only this source; empty: all */
            source?: string;
            /**
             * @description The time zone in which days begin; default UTC
             * @example Europe/Berlin
             */
            tz?: string;
            /** @description Only uploads of this user; others than your own are for admins; empty: all that you may see */
            user?: string;
            /**
             * @description Which view; default funnel
             * @enum {string}
             */
            view?: "batches" | "dlq" | "funnel" | "lag" | "queues" | "uploads";
        };
        ResumedUpload: {
            /**
             * @description Default: as it was found out
             * @example ;
             */
            delimiter?: string;
            /**
             * @description Default: as it was found out
             * @example windows-1252
             */
            encoding?: string;
            /** @description Names of columns by field. title, brand and sku summarize items. Default: as it was */
            mapping?: {
                [key: string]: string;
            };
        };
        Retried: {
            /**
             * Format: int64
             * @description Items that are new again; as many as the limit: there may be more
             */
            retried: number;
            stage: string;
        };
        RetriedItem: {
            /** @description false: it was being tried again before */
            begun: boolean;
            /** @enum {string} */
            state: "retrying";
        };
        RetryFailedRequestBody: {
            /**
             * Format: double
             * @description Seconds until they stand in the queue; default 0
             */
            delay_s?: number;
            /** @description Only with an error that contains this */
            error?: string;
            /**
             * Format: date-time
             * @description Only those that failed before this time
             */
            failed_before?: string;
            /** @description Only of this file */
            filename?: string;
            /** @description Dead items too; they get as many attempts again */
            include_dead?: boolean;
            /**
             * Format: int64
             * @default 10000
             */
            limit: number;
            /** @description Only of files whose names begin so */
            prefix?: string;
        };
        RetryItemsRequestBody: {
            /** @description Only of this group */
            group?: string;
            /**
             * Format: int64
             * @default 10000
             */
            limit: number;
            /**
             * @default failed
             * @enum {string}
             */
            state: "failed" | "dead" | "cancelled";
        };
        Scan: {
            /** @description Files and places that cannot be taken now, with the reason */
            failed: components["schemas"]["ScannedFile"][];
            /**
             * Format: int64
             * @description Files that are there
             */
            files: number;
            /** @description Time was up before all files were taken: ask again */
            more: boolean;
            /**
             * Format: int64
             * @description Watched places
             */
            places: number;
            /**
             * Format: int64
             * @description Files that were read now, and whose content was taken before
             */
            same: number;
            /** @description Files that have become uploads now */
            taken: components["schemas"]["ScannedFile"][];
            /**
             * Format: int64
             * @description Files that are empty, have changed lately, or are tried again later
             */
            waiting: number;
        };
        ScannedFile: {
            /** @description Why it is not taken */
            error?: string;
            /** @description The upload that it has become */
            jobId?: string;
            /**
             * @description In the place; empty: the place itself
             * @example products.csv
             */
            path: string;
            /** @example s3://shop/in/ */
            place: string;
        };
        SetQueueWebhook: {
            /**
             * Format: int64
             * @description Requests that each server sends at a time, at most
             * @default 8
             */
            concurrency: number;
            /** @description whsec_ and 24 to 64 bytes in base64. Default: that of the webhook before, or one that is made */
            secret?: string;
            /**
             * Format: double
             * @description Seconds that an answer may take
             * @default 30
             */
            timeout_s: number;
            /**
             * @description An https or http URL in a public network, or in one that the configuration allows
             * @example https://shop.example/enrich
             */
            url: string;
        };
        ShardCounts: {
            /**
             * Format: int64
             * @description At mysql-sender
             */
            done: number;
            /**
             * Format: int64
             * @description At mysql-sender
             */
            failed: number;
            /** Format: int32 */
            shard: number;
            /** Format: int64 */
            total: number;
        };
        ShardState: {
            /**
             * @example done
             * @enum {string}
             */
            event_ingest_status: "new" | "started" | "done" | "failed";
            /**
             * @example new
             * @enum {string}
             */
            mysql_sender_status: "new" | "started" | "done" | "failed";
            /**
             * Format: int32
             * @example 0
             */
            shard: number;
            /**
             * @example done
             * @enum {string}
             */
            shard_splitter_status: "new" | "started" | "done" | "failed";
            /**
             * @example started
             * @enum {string}
             */
            shard_worker_status: "new" | "started" | "done" | "failed";
            /** @description With detail; by the stage's column */
            stages?: {
                [key: string]: components["schemas"]["StageDetail"];
            };
            /**
             * Format: date-time
             * @example 2025-01-01T00:05:00Z
             */
            updated_at: string;
        };
        Source: {
            /**
             * Format: int64
             * @description Events
             * @example 12300
             */
            count: number;
            /** @description Events in each of the parts of the window, as far as they are counted */
            counts?: number[] | null;
            /**
             * Format: date-time
             * @description Its newest event of the window; of retired events, the beginning of the quarter of an hour
             * @example 2026-02-10T14:30:00Z
             */
            last_event_at: string;
            /** @description The longest time without events between two of the window; absent without one of an hour (of a day in windows of more than 31 days) */
            longest_gap?: components["schemas"]["SourceGap"];
            /** @example example_com */
            name: string;
            /**
             * Format: int64
             * @description Its place by number of events among all sources of the window
             * @example 1
             */
            rank: number;
        };
        SourceFilter: {
            /**
             * @description Only sources that are enabled, or that are not
             * @enum {string}
             */
            enabled?: "true" | "false";
            /**
             * @description Only sources whose job is of this health
             * @enum {string}
             */
            health?: "healthy" | "warning" | "failed" | "unknown";
            /**
             * @description Only sources whose job is in this status
             * @enum {string}
             */
            job_status?: "pending" | "running" | "paused" | "failed" | "orphaned";
            /**
             * @description Only sources of this priority
             * @enum {string}
             */
            priority?: "low" | "normal" | "high" | "critical";
            /**
             * @description Only sources with this in their name or URL, in any case
             * @example news
             */
            q?: string;
        };
        SourceGap: {
            /**
             * Format: date-time
             * @example 2026-02-10T09:15:00Z
             */
            from: string;
            /**
             * Format: int64
             * @example 6300
             */
            seconds: number;
            /**
             * Format: date-time
             * @example 2026-02-10T11:00:00Z
             */
            to: string;
        };
        SourceParts: {
            /**
             * Format: date-time
             * @description When the first one begins: the window, or up to an hour before it (a day in windows of more than 31 days)
             * @example 2026-02-09T15:00:00Z
             */
            from: string;
            /**
             * Format: int64
             * @description How long each is; the last one may end after the window
             * @example 3600
             */
            seconds: number;
        };
        Sources: {
            /**
             * Format: int64
             * @description Events of all sources of the window, whatever q is
             * @example 75480
             */
            events: number;
            /**
             * Format: int64
             * @description Events of the largest source of the window, whatever q is
             * @example 12300
             */
            largest: number;
            /** @description For the next page; absent on the last one. Sources that change places between two pages may be on both, or on neither */
            next_cursor?: string;
            /** @description What counts are of */
            parts: components["schemas"]["SourceParts"];
            /** @description One whose name is q first, then most events first */
            sources: components["schemas"]["Source"][] | null;
            /**
             * Format: int64
             * @description How many there are, on all pages; 0 on a page without any
             * @example 12556
             */
            total: number;
        };
        StageDelay: {
            /**
             * Format: int64
             * @example 68345
             */
            articles: number;
            /**
             * Format: double
             * @example 0.03
             */
            avg_mins: number;
            /** @example crawled */
            from: string;
            /**
             * Format: double
             * @example 0.02
             */
            median_mins: number;
            /** @example indexed */
            to: string;
        };
        StageDetail: {
            /**
             * Format: int32
             * @description How often it was taken
             */
            attempts: number;
            /** @description The last one */
            error?: string;
            /** Format: int32 */
            generation: number;
            /** Format: date-time */
            taken_at?: string;
            /** @description Who took it last */
            worker?: string;
        };
        StageRoles: {
            /**
             * @description Empty: the pipeline has none
             * @example classified
             */
            classify: string;
            /** @example crawled */
            crawl: string;
            /** @example published */
            publish: string;
            /** @example routed */
            route: string;
        };
        StageSettings: {
            /**
             * Format: int64
             * @description Items started at a time by all workers together; 0: any number
             */
            concurrency: number;
            /**
             * Format: int64
             * @description Attempts after which an item that is given back fails, and is dead; 0: any number
             */
            max_attempts: number;
            paused: boolean;
            /** @example shard-worker */
            stage: string;
        };
        Stats: {
            classification: components["schemas"]["ClassificationStats"];
            crawl: components["schemas"]["CrawlStats"];
            /** @description Which of by_source, by_model_version, by_topic and by_channel have only their largest names, as many as limit and 100,000 at most; absent: none */
            cut?: string[] | null;
            /**
             * Format: date-time
             * @description As from, unless events of the window's begin have been retired: by_…, quality and throughput are of events from here on
             * @example 2026-02-10T00:00:00Z
             */
            details_from: string;
            /** @description Reclassifications are left out */
            exclude_reclassifications?: boolean;
            /**
             * Format: date-time
             * @description As in the funnel
             * @example 2026-02-10T00:00:00Z
             */
            from: string;
            /**
             * Format: date-time
             * @example 2026-02-10T15:42:00.003Z
             */
            generated_at: string;
            /** @description As in the funnel */
            notes?: components["schemas"]["FieldError"][] | null;
            /**
             * @example today
             * @enum {string}
             */
            period: "today" | "24h" | "7d" | "30d" | "custom";
            publishing: components["schemas"]["PublishingStats"];
            /** @description The stages that this is about */
            roles: components["schemas"]["StageRoles"];
            /**
             * Format: int32
             * @description Medians and throughput are of one article in so many; 1, unless the window is large
             * @example 1
             */
            sample: number;
            /** @description Only this source; empty: all */
            source: string;
            /** @description The figures are those of the funnel with the same folded_seq */
            stream: components["schemas"]["StreamPosition"];
            throughput: components["schemas"]["Throughput"];
            /** @example UTC */
            timezone: string;
            /**
             * Format: date-time
             * @description As in the funnel
             * @example 2026-02-10T15:42:00Z
             */
            to: string;
            /** @description What by_source, by_model_version, by_topic and by_channel have in all, names that are cut included */
            totals: components["schemas"]["Totals"];
            /**
             * Format: double
             * @description As in the funnel
             * @example 0
             */
            unique_error: number;
            /**
             * @description As in the funnel
             * @enum {string}
             */
            unique_method: "exact" | "sketch";
        };
        StatusCounts: {
            /** Format: int64 */
            done: number;
            /** Format: int64 */
            failed: number;
            /** Format: int64 */
            new: number;
            /** Format: int64 */
            started: number;
        };
        Stored: {
            /**
             * @description As sent, or as computed
             * @example classifier:classified:0a1b2c3d:2026-02-10T14:30:00Z
             */
            idempotency_key: string;
            /**
             * @description Whether the event is new
             * @enum {string}
             */
            status: "accepted" | "duplicate";
            /** @description SHA-256 of the URL that identifies the article, in hex */
            url_hash: string;
        };
        StoredEvent: {
            /** @example https://example.com/article-123 */
            article_url: string;
            canonical_url?: string;
            /** @example example.com */
            domain: string;
            /**
             * @description As sent, or as computed where none was sent
             * @example classifier:classified:a1b2c3d4:2026-02-10T14:30:00Z
             */
            idempotency_key: string;
            /** @description A JSON object, or null */
            metadata: unknown;
            /**
             * Format: int32
             * @example 1
             */
            metadata_schema_version: number;
            /**
             * Format: date-time
             * @example 2026-02-10T14:30:00Z
             */
            occurred_at: string;
            /**
             * Format: date-time
             * @example 2026-02-10T14:30:00.013Z
             */
            received_at: string;
            /**
             * Format: int64
             * @description Its place in the event stream
             * @example 91220
             */
            seq: number;
            /** @example classifier */
            service_name: string;
            /** @example example_com */
            source_name: string;
            /** @example classified */
            stage: string;
            trace_id?: string;
            /** @description SHA-256 of canonical_url, or of article_url without one */
            url_hash: string;
        };
        StoredObject: {
            /** @example crawl-results */
            bucket: string;
            /** @example tiktok/proj_xyz/brand/batch_001.json */
            key: string;
            /** @description In hexadecimal digits */
            sha256: string;
            /**
             * Format: int64
             * @description Bytes, as they were sent
             */
            size: number;
        };
        StreamPosition: {
            /**
             * Format: int64
             * @description Messages that are not yet counted
             * @example 0
             */
            behind: number;
            /**
             * Format: int64
             * @description Messages up to this sequence are counted
             * @example 91220
             */
            folded_seq: number;
            /**
             * Format: int64
             * @description Sequence of the newest message in the event stream
             * @example 91220
             */
            last_seq: number;
            /**
             * Format: date-time
             * @description When the first message that is not counted came, or when the stream last answered; absent while that is less than 3 seconds ago
             */
            stale_since?: string;
        };
        Summary: {
            by_shard: components["schemas"]["ShardCounts"][] | null;
            /** @description By the stage's column: shard_worker */
            by_stage: {
                [key: string]: components["schemas"]["StatusCounts"];
            };
            /** @description By the stage's column */
            queues: {
                [key: string]: components["schemas"]["QueueState"];
            };
            /**
             * Format: int64
             * @description Items
             */
            total: number;
        };
        TakeItems: {
            /**
             * Format: double
             * @description Seconds, 1 to 86,400, until they are new again unless they have moved; default that of the queue, 300 for stages of shards
             * @example 60
             */
            lease_s?: number;
            /**
             * Format: int64
             * @description How many at most, 1 to 1,000; default 10
             * @example 10
             */
            limit?: number;
            /**
             * @description Who takes them; 1 to 200 bytes, and not nats
             * @example host-7
             */
            worker: string;
        };
        Taken: {
            /** @description None when the queue is empty, the stage is paused, or as many are started as it allows */
            items: components["schemas"]["TakenItem"][] | null;
            /**
             * Format: double
             * @example 60
             */
            lease_s: number;
            /** @example shard-worker */
            stage: string;
        };
        TakenFromQueue: {
            /** @description None when the queue is empty, paused, or as many are started as it allows */
            items: components["schemas"]["TakenQueueItem"][];
        };
        TakenItem: {
            /**
             * Format: int32
             * @description How often it has been taken, with this time
             */
            attempt: number;
            /** Format: date-time */
            created_at: string;
            /** @example 20250101000000 */
            filename: string;
            /**
             * Format: int32
             * @description Names this taking; said with done, fail, release, again or extend, these do nothing once another worker holds the item
             */
            generation: number;
            /**
             * Format: int32
             * @example 0
             */
            shard: number;
        };
        TakenQueueItem: {
            /**
             * Format: int32
             * @description The number of this attempt, from 1
             */
            attempt: number;
            /** Format: date-time */
            created_at: string;
            /**
             * Format: int32
             * @description Names this taking; moves that name it do nothing once another worker holds the item
             */
            generation: number;
            group?: string;
            /** Format: int64 */
            id: number;
            key?: string;
            /** Format: date-time */
            lease_until: string | null;
            payload: unknown;
            /** Format: int32 */
            priority: number;
            /** @description The span that added the item (W3C Trace Context), where somebody traces it */
            traceparent?: string;
        };
        Throughput: {
            /**
             * Format: int64
             * @description How many the figures above are of
             * @example 9800
             */
            articles: number;
            /**
             * Format: double
             * @example 0.8
             */
            avg_classify_to_publish_mins: number | null;
            /**
             * Format: double
             * @example 12.4
             */
            avg_crawl_to_classify_mins: number | null;
            /**
             * Format: double
             * @example 13.2
             */
            avg_end_to_end_mins: number | null;
            /**
             * Format: double
             * @example 0.6
             */
            median_classify_to_publish_mins: number | null;
            /**
             * Format: double
             * @description null without an article
             * @example 11.2
             */
            median_crawl_to_classify_mins: number | null;
            /**
             * Format: double
             * @example 11.8
             */
            median_end_to_end_mins: number | null;
            /** @description From each stage to the next one that an article reached, of all articles */
            stages: components["schemas"]["StageDelay"][] | null;
        };
        ToggleReason: {
            /** @description Why, for the event; default user_requested */
            reason?: string;
        };
        Total: {
            /**
             * Format: int64
             * @description The sum over all of them
             * @example 75480
             */
            events: number;
            /**
             * Format: int64
             * @description How many there are
             * @example 12556
             */
            names: number;
        };
        Totals: {
            by_channel: components["schemas"]["Total"];
            by_model_version: components["schemas"]["Total"];
            by_source: components["schemas"]["Total"];
            by_topic: components["schemas"]["Total"];
        };
        Transition: {
            /** Format: date-time */
            at: string;
            /**
             * Format: int32
             * @description How often the item had been taken at the stage
             */
            attempt: number;
            error?: string;
            /** @example 20250101000000 */
            filename: string;
            /** @description Its place in the order of all */
            id: string;
            /**
             * Format: int32
             * @example 0
             */
            shard: number;
            /** @example shard-worker */
            stage: string;
            /**
             * @description After it
             * @example done
             * @enum {string}
             */
            status: "new" | "started" | "done" | "failed";
            /**
             * @example done
             * @enum {string}
             */
            transition: "register" | "start" | "done" | "fail" | "retry" | "release" | "again" | "expire" | "cancel";
            worker?: string;
        };
        Upcoming: {
            /** @description The first is the due time that waits for the end of a backoff, if there is one */
            items: components["schemas"]["NextRun"][];
            /** @description Whether the job is paused or orphaned: what is due meanwhile does not run */
            paused: boolean;
            /**
             * @description Of the schedule; an interval has UTC
             * @example Europe/Berlin
             */
            time_zone: string;
        };
        Upload: {
            /** @description That the file came from */
            address: string;
            /**
             * Format: int32
             * @description How often a process began to work on it
             */
            attempts: number;
            /** @description It was cancelled: no more rows are persisted, and what was pending is SKIPPED */
            cancelled: boolean;
            /** @description Names of the columns as results have them: two headers alike are told apart by a number, and an empty one is column_N. Empty until they are read, and for JSON lines */
            columns: string[];
            /** Format: date-time */
            created_at: string;
            /**
             * @description Of CSV; else empty
             * @example ,
             */
            delimiter: string;
            /**
             * @description Empty for XLSX, and for a zip unless it was said
             * @example windows-1252
             */
            encoding: string;
            /**
             * Format: int32
             * @description Those of them that are ERROR or NOT_FOUND
             */
            failed_items: number;
            file: components["schemas"]["UploadedFile"];
            /** Format: date-time */
            finished_at: string | null;
            /**
             * Format: float
             * @description Items a second that were processed from started_at until the first time that all were; 0 before
             */
            items_sec: number;
            /** @example 0199f0a2-7c1e-7000-8000-000000000001 */
            jobId: string;
            /** @description What keeps it from going on, or ended it */
            last_error: string | null;
            /**
             * Format: date-time
             * @description When a process last worked on it
             */
            last_heartbeat: string;
            /** @description Names of columns by field */
            mapping: {
                [key: string]: string;
            };
            name: string;
            /** @description All rows of the file are persisted */
            persisted: boolean;
            /**
             * Format: int32
             * @description Items with a final status
             */
            processed_items: number;
            /**
             * @description copy, or the queue whose workers make the results
             * @example copy
             */
            processor: string;
            /** @enum {string} */
            queue_state: "QUEUED" | "RUNNING" | "PAUSED" | "DONE" | "FAILED";
            /**
             * Format: int32
             * @description Rows that break a rule, and are no items
             */
            rejected_rows: number;
            /**
             * Format: float
             * @description Rows a second that were persisted, once all are
             */
            rows_sec: number;
            /** Format: date-time */
            started_at: string | null;
            statuses: components["schemas"]["UploadStatuses"];
            /**
             * Format: int32
             * @description Rows that are items so far
             */
            total_items: number;
            /** @description sub of the token that the file came with; empty where there are no tokens */
            user: string;
        };
        UploadExport: {
            /** Format: date-time */
            created_at: string;
            exact: boolean;
            /**
             * Format: date-time
             * @description When the file is deleted, once the export is DONE or FAILED
             */
            expires_at: string | null;
            /** @example 0b8f2f0e-6a3c-4f0e-9a55-1d2c3b4a5f60 */
            exportId: string;
            /** Format: date-time */
            finished_at: string | null;
            /** @enum {string} */
            format: "csv" | "ndjson" | "ndjson.zst" | "xlsx" | "parquet";
            jobId: string;
            /** @description Why it is FAILED, or is tried again */
            last_error: string | null;
            /**
             * @description Where the file is when it is DONE, relative to the address of this request; for the user of the upload alone, as the upload is
             * @example exports/0b8f2f0e-6a3c-4f0e-9a55-1d2c3b4a5f60/file
             */
            link: string;
            /**
             * Format: int64
             * @description Written so far
             */
            rows: number;
            /** @description Of the file, in hexadecimal digits, once it is DONE */
            sha256: string;
            /**
             * Format: int64
             * @description Bytes of the file, once it is DONE
             */
            size: number;
            /** @enum {string} */
            state: "QUEUED" | "RUNNING" | "DONE" | "FAILED";
            /**
             * Format: int64
             * @description Rows that there are to write; 0 until it is known
             */
            total_rows: number;
        };
        UploadExports: {
            items: components["schemas"]["UploadExport"][];
        };
        UploadInput: {
            /** @description An object */
            input: unknown;
            job_id: string;
            /** Format: int32 */
            row_no: number;
        };
        UploadItem: {
            /** Format: int32 */
            attempts: number;
            /** @example 0199f0a2-7c1e-7000-8000-000000000001-7 */
            id: string;
            /**
             * @description Where the image of a row of a zip is
             * @example /api/v1/uploads/0199f0a2-7c1e-7000-8000-000000000001/images/7
             */
            image_link?: string;
            /** @description The columns that the mapping names for title, brand and sku, and else the first ones, or the members title, brand and sku of JSON lines; each cut at 200 characters */
            inputSummary: {
                [key: string]: string;
            };
            job_id: string;
            /**
             * @description The format of the file
             * @enum {string}
             */
            job_type: "csv" | "ndjson" | "xlsx" | "zip";
            last_error: string | null;
            /** Format: date-time */
            locked_at: string | null;
            /** @description The worker that holds it; null: none does, and copy needs none */
            locked_by: string | null;
            /** @description The row of the grid; null before it is DONE */
            result: unknown;
            /**
             * Format: int32
             * @description Its place among the rows of the file, rejected ones included; from 1
             */
            row_no: number;
            /** @enum {string} */
            status: "PENDING" | "PROCESSING" | "DONE" | "ERROR" | "NOT_FOUND" | "SKIPPED";
            /** Format: date-time */
            updated_at: string;
            /**
             * Format: int32
             * @description Grows with each change
             */
            version: number;
        };
        UploadItemPage: {
            items: components["schemas"]["UploadItem"][];
            /** @description For after; absent from the last page */
            next?: string;
        };
        UploadPage: {
            items: components["schemas"]["Upload"][];
            /** @description For the next page; absent from the last */
            next_cursor?: string;
        };
        UploadPreview: {
            delimiter: string;
            encoding: string;
            /** @description Why the file cannot be read so, or not on */
            error?: string;
            /** @description Empty for JSON lines */
            header: string[];
            rows: components["schemas"]["PreviewedRow"][];
        };
        UploadReceived: {
            /** @description Of CSV; else empty */
            delimiter: string;
            /** @description Empty for XLSX, and for a zip unless it was said */
            encoding: string;
            /** @enum {string} */
            format: "csv" | "ndjson" | "xlsx" | "zip";
            jobId: string;
            /** @enum {string} */
            queue_state: "QUEUED" | "PAUSED";
            /** @description Of the file, in hexadecimal digits */
            sha256: string;
            /**
             * Format: int64
             * @description Bytes of the file
             */
            size: number;
        };
        UploadSlice: {
            jobId: string;
            /**
             * Format: int32
             * @description Items that are pending, behind it
             */
            pending: number;
            /**
             * Format: int64
             * @description Items that were processed in this slice: of a queue, those to which workers gave final statuses meanwhile
             */
            processed: number;
            /**
             * @description Of the upload, behind it
             * @enum {string}
             */
            queue_state: "QUEUED" | "RUNNING" | "PAUSED" | "DONE" | "FAILED";
            /** Format: int64 */
            took_ms: number;
        };
        UploadStatuses: {
            /** Format: int32 */
            DONE: number;
            /** Format: int32 */
            ERROR: number;
            /** Format: int32 */
            NOT_FOUND: number;
            /** Format: int32 */
            PENDING: number;
            /** Format: int32 */
            PROCESSING: number;
            /** Format: int32 */
            SKIPPED: number;
        };
        UploadedFile: {
            /** @enum {string} */
            format: "csv" | "ndjson" | "xlsx" | "zip";
            /** @example products.csv */
            name: string;
            /** @description In hexadecimal digits */
            sha256: string;
            /**
             * Format: int64
             * @description Bytes
             */
            size: number;
        };
        UserQueue: {
            backoff_s: number[];
            /**
             * Format: int64
             * @description Items out at a time, with all workers together; 0: any number
             */
            concurrency: number;
            /**
             * Format: int64
             * @description Items of one group out at a time; 0: any number
             */
            concurrency_per_group: number;
            /**
             * Format: int64
             * @description Items that can be taken now
             */
            depth: number;
            /** Format: double */
            lease_s: number;
            /** Format: int64 */
            max_attempts: number;
            /**
             * Format: int64
             * @description Live items; as many finished ones are kept
             */
            max_items: number;
            /**
             * Format: double
             * @description Seconds that count in the place of lease_s while uploads are worked in the queue, by how long workers have items
             */
            measured_lease_s?: number;
            /** @example mail */
            name: string;
            /**
             * Format: double
             * @description Seconds since the item that has been in the queue longest came into it; 0 in an empty queue
             */
            oldest_age_s: number;
            paused: boolean;
            /** @description Starts of items with the same key in any so many seconds; null: any number */
            rate_per_key: components["schemas"]["Rate"] | null;
            /**
             * Format: double
             * @description Seconds for which finished items are kept
             */
            retention_s: number;
            /** @description Items by state */
            states: components["schemas"]["ItemStates"];
        };
        UserQueueItem: {
            /** Format: int32 */
            attempts: number;
            /** Format: date-time */
            created_at: string;
            /** @description The last one */
            error?: string;
            /** Format: int32 */
            generation: number;
            group?: string;
            /** Format: int64 */
            id: number;
            key?: string;
            /** Format: date-time */
            lease_until?: string;
            payload: unknown;
            /** Format: int32 */
            priority: number;
            /** @description What the worker has last said that it is at */
            progress?: string;
            /**
             * Format: date-time
             * @description When it said so
             */
            progress_at?: string;
            result: unknown;
            /**
             * Format: date-time
             * @description Of a scheduled one: when it can be taken
             */
            run_at?: string;
            /** @enum {string} */
            state: "new" | "scheduled" | "started" | "done" | "failed" | "dead" | "cancelled";
            /** Format: date-time */
            updated_at: string;
            /** @description Who took it last */
            worker?: string;
        };
        UserQueueItemEvent: {
            /** Format: date-time */
            at: string;
            /** Format: int32 */
            attempt: number;
            error?: string;
            /** @enum {string} */
            move: "register" | "start" | "done" | "fail" | "retry" | "release" | "again" | "expire" | "cancel";
            worker?: string;
        };
        UserQueueItemHistory: {
            /** Format: int32 */
            attempts: number;
            /** Format: date-time */
            created_at: string;
            /** @description The last one */
            error?: string;
            /** Format: int32 */
            generation: number;
            group?: string;
            /** @description What happened to it, in order */
            history: components["schemas"]["UserQueueItemEvent"][];
            /** Format: int64 */
            id: number;
            key?: string;
            /** Format: date-time */
            lease_until?: string;
            payload: unknown;
            /** @description The last 20 changes of its payload, in order */
            payload_changes: components["schemas"]["UserQueuePayloadChange"][];
            /** Format: int32 */
            priority: number;
            /** @description What the worker has last said that it is at */
            progress?: string;
            /**
             * Format: date-time
             * @description When it said so
             */
            progress_at?: string;
            result: unknown;
            /**
             * Format: date-time
             * @description Of a scheduled one: when it can be taken
             */
            run_at?: string;
            /** @enum {string} */
            state: "new" | "scheduled" | "started" | "done" | "failed" | "dead" | "cancelled";
            /** Format: date-time */
            updated_at: string;
            /** @description Who took it last */
            worker?: string;
        };
        UserQueueItems: {
            items: components["schemas"]["UserQueueItem"][];
            /** @description For the next page; absent from the last. A page found by payload may have fewer items than limit, or none */
            next_cursor?: string;
        };
        UserQueueList: {
            items: components["schemas"]["UserQueue"][];
        };
        UserQueuePayloadChange: {
            /** Format: date-time */
            at: string;
            /**
             * Format: int32
             * @description Attempts made before it
             */
            attempt: number;
            /** @description The payload until then */
            before: unknown;
            /** @description Who has made it; empty on a server without tokens */
            by: string;
        };
        UserQueueSettings: {
            /** @description Seconds to wait after each attempt in vain; the last counts for all that follow */
            backoff_s: number[];
            /**
             * Format: int64
             * @description Items out at a time, with all workers together; 0: any number
             */
            concurrency: number;
            /**
             * Format: int64
             * @description Items of one group out at a time; 0: any number
             */
            concurrency_per_group: number;
            /**
             * Format: double
             * @description Seconds for which an item is taken by a worker that names no time
             */
            lease_s: number;
            /**
             * Format: int64
             * @description Attempts after which an item is dead; 0: any number
             */
            max_attempts: number;
            /**
             * Format: int64
             * @description Live items; as many finished ones are kept
             */
            max_items: number;
            /** @example mail */
            name: string;
            paused: boolean;
            /** @description Starts of items with the same key in any so many seconds; null: any number */
            rate_per_key: components["schemas"]["Rate"] | null;
            /**
             * Format: double
             * @description Seconds for which finished items are kept
             */
            retention_s: number;
        };
        UserQueueTransition: {
            /** Format: date-time */
            at: string;
            /**
             * Format: int32
             * @description How often the item had been taken
             */
            attempt: number;
            error?: string;
            /** @description Its place in the order of all */
            id: string;
            /** Format: int64 */
            item: number;
            /** @example mail */
            queue: string;
            /**
             * @description After it
             * @example done
             * @enum {string}
             */
            status: "new" | "started" | "done" | "failed";
            /**
             * @example done
             * @enum {string}
             */
            transition: "register" | "start" | "done" | "fail" | "retry" | "release" | "again" | "expire" | "cancel";
            worker?: string;
        };
        WatchedFile: {
            /** @description The upload that it has become */
            jobId: string | null;
            /** @description Why it is not taken */
            last_error: string | null;
            /** @description In the place; empty: the place itself, which cannot be listed */
            path: string;
            place: string;
            /**
             * Format: date-time
             * @description When it was seen to have changed
             */
            seen_at: string;
            /** @enum {string} */
            state: "WAITING" | "TAKEN" | "SAME" | "FAILED";
        };
        WatchedFiles: {
            items: components["schemas"]["WatchedFile"][];
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    "list-acts": {
        parameters: {
            query?: {
                limit?: number;
                /** @description next_cursor of the page before */
                cursor?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Acts"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "begin-act": {
        parameters: {
            query?: never;
            header?: {
                /** @description The same request with the same key, by the same caller, answers 200 with the act that the first has begun */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["BeginActRequestBody"];
            };
        };
        responses: {
            /** @description It was there already, alike */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BegunAct"];
                };
            };
            /** @description It was made */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BegunAct"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Timeout */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Entity Too Large */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unsupported Media Type */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "count-act": {
        parameters: {
            query: {
                move: "retry" | "cancel";
                /** @description A user-defined queue, or a stage of shards; may be left out where filename or search is given: every stage */
                queue?: string;
                /** @description To retry: failed, dead or, in a user-defined queue, cancelled; by default failed and dead. To cancel: new, scheduled or started; by default all three */
                state?: string;
                /** @description Of a user-defined queue */
                group?: string;
                /** @description Of a user-defined queue */
                key?: string;
                /** @description Only shards of this file */
                filename?: string;
                /** @description Only shards of files whose names contain this */
                search?: string;
                /** @description Only items whose last error has this fingerprint, as /failures has it */
                fingerprint?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ActCount"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "get-act": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Act"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "list-act-members": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ActMembers"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "stop-act": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Act"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Entity Too Large */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unsupported Media Type */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "get-articles": {
        parameters: {
            query?: {
                /** @description Articles that reached this stage and none after it, the longest stuck first */
                stuck_after?: string;
                /** @description With stuck_after: at least this long ago; 90s, 30m, 1h, 2d */
                older_than?: string;
                /** @description With stuck_after: at most this long ago */
                within?: string;
                /** @description Instead of stuck_after: articles by the time from one stage to another, the slowest first */
                sort?: "slowest";
                /** @description With sort=slowest; default the first stage */
                from_stage?: string;
                /** @description With sort=slowest; default the last stage */
                to_stage?: string;
                /** @description With sort=slowest: the window in which both stages were reached, as for the funnel */
                period?: "today" | "24h" | "7d" | "30d";
                /** @description As for the funnel */
                from?: string;
                /** @description As for the funnel */
                to?: string;
                /** @description As for the funnel */
                tz?: string;
                /** @description Only articles of this source */
                source?: string;
                /** @description How many articles a page has at most */
                limit?: number;
                /** @description next_cursor of the page before, with the same parameters */
                cursor?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ArticlesPage"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "get-articles-export": {
        parameters: {
            query?: {
                /** @description Articles that reached this stage and none after it, the longest stuck first */
                stuck_after?: string;
                /** @description With stuck_after: at least this long ago; 90s, 30m, 1h, 2d */
                older_than?: string;
                /** @description With stuck_after: at most this long ago */
                within?: string;
                /** @description Instead of stuck_after: articles by the time from one stage to another, the slowest first */
                sort?: "slowest";
                /** @description With sort=slowest; default the first stage */
                from_stage?: string;
                /** @description With sort=slowest; default the last stage */
                to_stage?: string;
                /** @description With sort=slowest: the window in which both stages were reached, as for the funnel */
                period?: "today" | "24h" | "7d" | "30d";
                /** @description As for the funnel */
                from?: string;
                /** @description As for the funnel */
                to?: string;
                /** @description As for the funnel */
                tz?: string;
                /** @description Only articles of this source */
                source?: string;
                /** @description CSV as in RFC 4180, JSON lines with the rows as the list has them, the same compressed by zstd, or Parquet. In CSV an apostrophe stands before a text that a spreadsheet would take for a formula */
                format?: "csv" | "ndjson" | "ndjson.zst" | "parquet";
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The file. The trailer Millrace-Sha256 is its SHA-256, as sha256sum prints it. */
            200: {
                headers: {
                    "Content-Disposition"?: string;
                    "Content-Type"?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/vnd.apache.parquet": string;
                    "application/x-ndjson": string;
                    "application/zstd": string;
                    "text/csv; charset=utf-8; header=present": string;
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "get-journey": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description SHA-256 of the article's URL, hexadecimal */
                url_hash: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Journey"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "get-batch-item": {
        parameters: {
            query?: {
                /** @description With the whole item as it was read, and the details of its error */
                content?: boolean;
            };
            header?: never;
            path: {
                /** @description The item's content_id. A slash in it is written %2F */
                content_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BatchItem"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "get-batches": {
        parameters: {
            query?: {
                /** @description Only batches of this job */
                job_id?: string;
                /** @description Only batches of this project */
                project_id?: string;
                /** @description Only batches of this platform, as announced */
                platform?: string;
                /** @description Only batches in this state */
                state?: "succeeded" | "partial" | "failed" | "retrying" | "empty";
                /** @description Only batches with warnings, or with other content than counts */
                noted?: "warnings" | "conflict";
                /** @description Only of batches that were read then or later */
                from?: string;
                /** @description Only of batches that were read before */
                to?: string;
                /** @description How many items a page has at most */
                limit?: number;
                /** @description next_cursor of the page before, with the same filters */
                cursor?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CrawlBatchPage"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "announce-batch": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": Record<string, never>;
            };
        };
        responses: {
            /** @description It is announced */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Announced"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Timeout */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Entity Too Large */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unsupported Media Type */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "batch-modes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BatchModes"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "set-batch-modes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ModeChange"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BatchModes"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Timeout */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Entity Too Large */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unsupported Media Type */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "reclassify-batches": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ReclassifyRequest"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Reclassified"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Timeout */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Entity Too Large */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unsupported Media Type */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "get-batches-report": {
        parameters: {
            query?: {
                /** @description The items of this job */
                job_id?: string;
                /** @description With job_id: the items of this batch alone; -1: of all */
                batch_index?: number;
                /** @description The items of this project */
                project_id?: string;
                /** @description Only items with this outcome */
                fetch_status?: "success" | "error";
                /** @description CSV as in RFC 4180, JSON lines with the rows as the list has them, the same compressed by zstd, or Parquet. In CSV an apostrophe stands before a text that a spreadsheet would take for a formula */
                format?: "csv" | "ndjson" | "ndjson.zst" | "parquet";
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The file. The trailer Millrace-Sha256 is its SHA-256, as sha256sum prints it. */
            200: {
                headers: {
                    "Content-Disposition"?: string;
                    "Content-Type"?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/vnd.apache.parquet": string;
                    "application/x-ndjson": string;
                    "application/zstd": string;
                    "text/csv; charset=utf-8; header=present": string;
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "get-batches-summary": {
        parameters: {
            query?: {
                /** @description Only batches of this job */
                job_id?: string;
                /** @description Only batches of this project */
                project_id?: string;
                /** @description Only batches of this platform, as announced */
                platform?: string;
                /** @description Only batches in this state */
                state?: "succeeded" | "partial" | "failed" | "retrying" | "empty";
                /** @description Only batches with warnings, or with other content than counts */
                noted?: "warnings" | "conflict";
                /** @description Only of batches that were read then or later */
                from?: string;
                /** @description Only of batches that were read before */
                to?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BatchesSummary"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "get-batch": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The job that crawled the items. A slash in it is written %2F */
                job_id: string;
                /** @description Which batch of the job it is */
                batch_index: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CrawlBatch"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "get-batch-contents": {
        parameters: {
            query?: {
                /** @description How many items a page has at most */
                limit?: number;
                /** @description next_cursor of the page before, with the same filters */
                cursor?: string;
                /** @description Only items with this outcome */
                fetch_status?: "success" | "error";
            };
            header?: never;
            path: {
                /** @description The job that crawled the items. A slash in it is written %2F */
                job_id: string;
                /** @description Which batch of the job it is */
                batch_index: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CrawledItemPage"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "retry-batch-item": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description A slash in it is written %2F */
                job_id: string;
                batch_index: number;
                /** @description Of the item in the batch, from 0 */
                position: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RetriedItem"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Entity Too Large */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unsupported Media Type */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "get-crawl-errors": {
        parameters: {
            query?: {
                /** @description Only errors with this error_code */
                code?: string;
                /** @description Only errors of this category */
                category?: "rate_limiting" | "content" | "network" | "parsing" | "media" | "storage" | "generic";
                /** @description Only errors of this project */
                project_id?: string;
                /** @description Only errors of this platform, as announced */
                platform?: string;
                /** @description Only errors of this job */
                job_id?: string;
                /** @description Only of batches that were read then or later */
                from?: string;
                /** @description Only of batches that were read before */
                to?: string;
                /** @description How many items a page has at most */
                limit?: number;
                /** @description next_cursor of the page before, with the same filters */
                cursor?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CrawlErrorPage"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "get-crawl-error-groups": {
        parameters: {
            query?: {
                /** @description Only errors with this error_code */
                code?: string;
                /** @description Only errors of this category */
                category?: "rate_limiting" | "content" | "network" | "parsing" | "media" | "storage" | "generic";
                /** @description Only errors of this project */
                project_id?: string;
                /** @description Only errors of this platform, as announced */
                platform?: string;
                /** @description Only errors of this job */
                job_id?: string;
                /** @description Only of batches that were read then or later */
                from?: string;
                /** @description Only of batches that were read before */
                to?: string;
                /** @description How many groups at most, the largest */
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CrawlErrorGroups"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "get-crawl-error-rates": {
        parameters: {
            query?: {
                /** @description Only errors with this error_code */
                code?: string;
                /** @description Only errors of this category */
                category?: "rate_limiting" | "content" | "network" | "parsing" | "media" | "storage" | "generic";
                /** @description Only errors of this project */
                project_id?: string;
                /** @description Only errors of this platform, as announced */
                platform?: string;
                /** @description Only errors of this job */
                job_id?: string;
                /** @description Only of batches that were read then or later */
                from?: string;
                /** @description Only of batches that were read before */
                to?: string;
                /** @description What errors are put together by; hours and days are of UTC, by when the batch was read */
                by?: "code" | "category" | "project" | "platform" | "hour" | "day";
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CrawlErrorRates"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "count-crawl-errors-retry": {
        parameters: {
            query?: {
                /** @description Errors with this error_code */
                code?: string;
                /** @description Errors of this category: rate_limiting, content, network, parsing, media, storage or generic */
                category?: string;
                /** @description Errors of this project */
                project_id?: string;
                /** @description Errors of this platform, as announced */
                platform?: string;
                /** @description Errors of this job */
                job_id?: string;
                /** @description Errors of this group, as /crawl-errors/groups has it, beside its error_code */
                fingerprint?: string;
                /** @description Errors of this batch of job_id; -1: of any */
                batch_index?: number;
                /** @description Errors of batches that were read then or later */
                from?: string;
                /** @description Errors of batches that were read before */
                to?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ActCount"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "retry-crawl-errors": {
        parameters: {
            query?: never;
            header?: {
                /** @description The same request with the same key, by the same caller, answers 200 with the act that the first has begun */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ErrorFilter"];
            };
        };
        responses: {
            /** @description It was there already, alike */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BegunAct"];
                };
            };
            /** @description It was made */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BegunAct"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Timeout */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Entity Too Large */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unsupported Media Type */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "get-dead-letters": {
        parameters: {
            query?: {
                /** @description Only letters of messages that came from this stream */
                stream?: string;
                /** @description Only letters that break this rule */
                code?: string;
                /** @description Only letters of which this field breaks a rule */
                field?: string;
                /** @description Only letters of messages that came on this subject; * and > are wildcards as in NATS */
                subject?: string;
                /** @description Only letters of messages that their stream received at or after this time, RFC 3339 */
                since?: string;
                /** @description Only letters of messages that their stream received before this time */
                until?: string;
                /** @description Which letters come first */
                order?: "newest" | "oldest";
                /** @description How many letters a page has at most */
                limit?: number;
                /** @description next_cursor of the page before, with the same filters and order */
                cursor?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LetterPage"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "purge-dead-letters": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["PurgeLetters"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LetterReport"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Timeout */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Entity Too Large */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unsupported Media Type */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "replay-dead-letters": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ReplayLetters"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LetterReport"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Timeout */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Entity Too Large */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unsupported Media Type */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "get-dead-letter": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The letter's number, or its message's stream and place there with an escaped slash: EVENTS%2F91220 */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LetterDetail"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "get-dead-letter-of": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The stream that the message came from */
                stream: string;
                /** @description Its place there */
                seq: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["LetterDetail"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "get-events": {
        parameters: {
            query?: {
                /** @description Only events with this article_url */
                article_url?: string;
                /** @description Only events of the article with this hash */
                url_hash?: string;
                /** @description Only events of this stage */
                stage?: string;
                /** @description Only events of this source */
                source?: string;
                /** @description Only events of this trace */
                trace_id?: string;
                /** @description Only events of this service */
                service?: string;
                /** @description Only events at or after this time, RFC 3339 */
                from?: string;
                /** @description Only events before this time, RFC 3339 */
                to?: string;
                /** @description How many events a page has at most; one of 8 MiB of metadata ends before */
                limit?: number;
                /** @description next_cursor of the page before, with the same filters */
                cursor?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EventsPage"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "post-event": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["Event"];
                /** @example {"article_url":"https://example.com/a","source_name":"example_com","stage":"crawled","occurred_at":"2026-02-10T14:30:00Z","service_name":"crawler"} */
                "application/x-ndjson": string;
            };
        };
        responses: {
            /** @description It is a duplicate, or all lines are */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Stored"] | components["schemas"]["BatchResult"];
                };
            };
            /** @description The event is new, or at least one of the lines */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Stored"] | components["schemas"]["BatchResult"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Timeout */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Entity Too Large */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unsupported Media Type */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too Many Requests */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "post-events": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    events: components["schemas"]["Event"][];
                };
                /** @example {"article_url":"https://example.com/a","source_name":"example_com","stage":"crawled","occurred_at":"2026-02-10T14:30:00Z","service_name":"crawler"} */
                "application/x-ndjson": string;
            };
        };
        responses: {
            /** @description All were duplicates */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BatchResult"];
                };
            };
            /** @description At least one event is new */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BatchResult"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Timeout */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Entity Too Large */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unsupported Media Type */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too Many Requests */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "get-events-export": {
        parameters: {
            query?: {
                /** @description Only events with this article_url */
                article_url?: string;
                /** @description Only events of the article with this hash */
                url_hash?: string;
                /** @description Only events of this stage */
                stage?: string;
                /** @description Only events of this source */
                source?: string;
                /** @description Only events of this trace */
                trace_id?: string;
                /** @description Only events of this service */
                service?: string;
                /** @description Only events at or after this time, RFC 3339 */
                from?: string;
                /** @description Only events before this time, RFC 3339 */
                to?: string;
                /** @description CSV as in RFC 4180, JSON lines with the rows as the list has them, the same compressed by zstd, or Parquet. In CSV an apostrophe stands before a text that a spreadsheet would take for a formula */
                format?: "csv" | "ndjson" | "ndjson.zst" | "parquet";
                /** @description Only the newest so many events. Without it all of them; more than 1,000,000 are refused */
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The file. The trailer Millrace-Sha256 is its SHA-256, as sha256sum prints it. */
            200: {
                headers: {
                    "Content-Disposition"?: string;
                    "Content-Type"?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/vnd.apache.parquet": string;
                    "application/x-ndjson": string;
                    "application/zstd": string;
                    "text/csv; charset=utf-8; header=present": string;
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "get-event-log": {
        parameters: {
            query?: {
                /** @description How many items a page has at most */
                limit?: number;
                /** @description next_cursor of the page before, with the same filters */
                cursor?: string;
                /** @description Only events about this source */
                source_id?: string;
                /** @description Only events of this type */
                event_type?: "SOURCE_CREATED" | "SOURCE_UPDATED" | "SOURCE_DELETED" | "SOURCE_ENABLED" | "SOURCE_DISABLED";
                /** @description Only events of which this became */
                outcome?: "applied" | "stale" | "waiting" | "dead";
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["EventLogPage"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "group-failures": {
        parameters: {
            query?: {
                /** @description A user-defined queue, or a stage of shards; may be left out where filename or search is given: every stage */
                queue?: string;
                /** @description To retry: failed, dead or, in a user-defined queue, cancelled; by default failed and dead. To cancel: new, scheduled or started; by default all three */
                state?: string;
                /** @description Of a user-defined queue */
                group?: string;
                /** @description Of a user-defined queue */
                key?: string;
                /** @description Only shards of this file */
                filename?: string;
                /** @description Only shards of files whose names contain this */
                search?: string;
                /** @description Only items whose last error has this fingerprint, as /failures has it */
                fingerprint?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Failures"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "get-funnel": {
        parameters: {
            query?: {
                /** @description A period that ends now; today (the default) begins at midnight of tz */
                period?: "today" | "24h" | "7d" | "30d";
                /** @description Begin of a custom window, inclusive, RFC 3339; instead of period */
                from?: string;
                /** @description End of a custom window, exclusive; without it, the window ends now */
                to?: string;
                /** @description The time zone in which today begins; default UTC */
                tz?: string;
                /** @description Only events of this source */
                source?: string;
                /** @description Leave out events whose metadata says is_reclassification */
                exclude_reclassifications?: boolean;
                /** @description How distinct articles are counted; auto: exactly, unless the window is large */
                uniques?: "auto" | "exact" | "sketch";
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Funnel"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "get-funnel-sources": {
        parameters: {
            query?: {
                /** @description As for the funnel */
                period?: "today" | "24h" | "7d" | "30d";
                /** @description As for the funnel */
                from?: string;
                /** @description As for the funnel */
                to?: string;
                /** @description As for the funnel */
                tz?: string;
                /** @description Only sources whose names have all of these words in them, in any case; _ stands for a blank */
                q?: string;
                /** @description How many sources a page has at most */
                limit?: number;
                /** @description next_cursor of the page before, with the same parameters */
                cursor?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Sources"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "get-funnel-sources-export": {
        parameters: {
            query?: {
                /** @description As for the funnel */
                period?: "today" | "24h" | "7d" | "30d";
                /** @description As for the funnel */
                from?: string;
                /** @description As for the funnel */
                to?: string;
                /** @description As for the funnel */
                tz?: string;
                /** @description Only sources whose names have all of these words in them, in any case; _ stands for a blank */
                q?: string;
                /** @description CSV as in RFC 4180, JSON lines with the rows as the list has them, the same compressed by zstd, or Parquet. In CSV an apostrophe stands before a text that a spreadsheet would take for a formula */
                format?: "csv" | "ndjson" | "ndjson.zst" | "parquet";
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The file. The trailer Millrace-Sha256 is its SHA-256, as sha256sum prints it. */
            200: {
                headers: {
                    "Content-Disposition"?: string;
                    "Content-Type"?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/vnd.apache.parquet": string;
                    "application/x-ndjson": string;
                    "application/zstd": string;
                    "text/csv; charset=utf-8; header=present": string;
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    health: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It runs */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Health"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "list-ingestion-files": {
        parameters: {
            query?: {
                /** @description Only files in this state */
                state?: "WAITING" | "TAKEN" | "SAME" | "FAILED";
                /** @description How many files there are at most */
                limit?: number;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["WatchedFiles"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "scan-ingestion": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["NoMembers"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Scan"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Timeout */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Entity Too Large */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unsupported Media Type */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "list-jobs": {
        parameters: {
            query?: {
                /** @description Only jobs of sources with this in their name or URL, in any case */
                q?: string;
                /** @description Only jobs of these sources: up to 100 ids, between commas */
                source_id?: string;
                /** @description Only jobs in this status */
                status?: "pending" | "running" | "paused" | "failed" | "orphaned";
                /** @description Only jobs of this health */
                health?: "healthy" | "warning" | "failed" | "unknown";
                /** @description Only jobs that follow their sources, or that do not */
                auto_managed?: "true" | "false";
                /** @description Only jobs of this priority; -1: of any */
                priority?: number;
                /** @description Only jobs of sources that are enabled, or that are not */
                enabled?: "true" | "false";
                /** @description Only jobs of sources of this priority */
                source_priority?: "low" | "normal" | "high" | "critical";
                /** @description Only jobs whose source is in the list of sources, or is not */
                has_source?: "true" | "false";
                /** @description How many items a page has at most */
                limit?: number;
                /** @description next_cursor of the page before, with the same filters */
                cursor?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobPage"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "make-job": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    /**
                     * Format: int64
                     * @description The job rests after failed runs: for this time, doubled for each of them in a row; default the interval
                     */
                    backoff_base_minutes?: number | null;
                    /**
                     * Format: int64
                     * @description The longest that it rests; default 1440
                     */
                    backoff_max_minutes?: number | null;
                    /** Format: int64 */
                    catch_up_cap?: number | null;
                    /** @enum {string|null} */
                    catch_up_policy?: "none" | "one" | "recent" | "all" | null;
                    /** Format: int64 */
                    catch_up_spread_seconds?: number | null;
                    /** Format: int64 */
                    catch_up_window_seconds?: number | null;
                    crawl_window?: {
                        /** @description Days on which it opens, 0 is Sunday; empty: every day. A request may name them, such as mon */
                        days?: (number | string)[];
                        /**
                         * Format: int64
                         * @description When it closes
                         * @example 6
                         */
                        end_hour: number;
                        /**
                         * Format: int64
                         * @description When it opens
                         * @example 22
                         */
                        start_hour: number;
                        /**
                         * @description Whose hours these are
                         * @example Europe/Berlin
                         */
                        time_zone?: string;
                    } | null;
                    /**
                     * @description A cron expression of five fields, in place of an interval
                     * @example 0 6 * * 1-5
                     */
                    cron?: string | null;
                    /**
                     * Format: int64
                     * @description From one due time to the next
                     */
                    interval_minutes?: number | null;
                    /** Format: int64 */
                    jitter_seconds?: number | null;
                    /**
                     * Format: int64
                     * @description Attempts of a run before it has failed; default 1
                     */
                    max_attempts?: number | null;
                    /** Format: int64 */
                    max_concurrent?: number | null;
                    /** @enum {string|null} */
                    overlap_policy?: "skip" | "buffer_one" | "cancel_other" | "allow" | null;
                    /** Format: int64 */
                    priority?: number | null;
                    /**
                     * Format: int64
                     * @description From a failed attempt of a run to the next, doubled for each further attempt; default 60
                     */
                    retry_delay_seconds?: number | null;
                    /**
                     * Format: uuid
                     * @description The source that it crawls
                     */
                    source_id: string;
                    /**
                     * @description Of the cron expression; default UTC
                     * @example Europe/Berlin
                     */
                    time_zone?: string | null;
                };
            };
        };
        responses: {
            /** @description Created */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MadeJob"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Timeout */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Gone */
            410: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Entity Too Large */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unsupported Media Type */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "begin-jobs-act": {
        parameters: {
            query?: never;
            header?: {
                /** @description The same request with the same key, by the same caller, answers 200 with the act that the first has begun */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["BeginJobsActBody"];
            };
        };
        responses: {
            /** @description It was there already, alike */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BegunAct"];
                };
            };
            /** @description It was made */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BegunAct"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Timeout */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Entity Too Large */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unsupported Media Type */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "count-jobs-act": {
        parameters: {
            query?: {
                /** @description Only jobs of sources with this in their name or URL, in any case */
                q?: string;
                /** @description Only jobs of these sources: up to 100 ids, between commas */
                source_id?: string;
                /** @description Only jobs in this status */
                status?: "pending" | "running" | "paused" | "failed" | "orphaned";
                /** @description Only jobs of this health */
                health?: "healthy" | "warning" | "failed" | "unknown";
                /** @description Only jobs that follow their sources, or that do not */
                auto_managed?: "true" | "false";
                /** @description Only jobs of this priority; -1: of any */
                priority?: number;
                /** @description Only jobs of sources that are enabled, or that are not */
                enabled?: "true" | "false";
                /** @description Only jobs of sources of this priority */
                source_priority?: "low" | "normal" | "high" | "critical";
                /** @description Only jobs whose source is in the list of sources, or is not */
                has_source?: "true" | "false";
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ActCount"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "audit-jobs": {
        parameters: {
            query: {
                /** @description Due times from then on */
                from: string;
                /** @description Due times before; those to come are left out */
                to: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobAudit"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "change-jobs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ChangeJobsRequestBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ChangedJobs"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Timeout */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Entity Too Large */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unsupported Media Type */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "get-job-of-source": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The source's UUID */
                source_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobOfSource"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "migrate-jobs": {
        parameters: {
            query?: {
                /** @description Change nothing, and say what would be done */
                dry_run?: boolean;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["MigrateJobsRequestBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MigratedJobs"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Timeout */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Entity Too Large */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unsupported Media Type */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "reconcile-jobs": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["ReconcileJobsRequestBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ReconciledJobs"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Timeout */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Entity Too Large */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unsupported Media Type */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "get-job-stats": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobStats"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "get-job": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The job's UUID */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobDetail"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "force-run-job": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The job's UUID */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["JobCommandBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Job"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Timeout */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Entity Too Large */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unsupported Media Type */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "get-job-ledger": {
        parameters: {
            query?: {
                /** @description How many items a page has at most */
                limit?: number;
                /** @description next_cursor of the page before, with the same filters */
                cursor?: string;
                /** @description Only due times from then on */
                from?: string;
                /** @description Only due times before */
                to?: string;
                /** @description Only due times with this outcome */
                outcome?: "ran" | "caught_up" | "buffered" | "skipped" | "coalesced" | "outside_window" | "backoff" | "paused" | "expired";
                /** @description Only due times that ran, on time or caught up, or that did not */
                ran?: "true" | "false";
            };
            header?: never;
            path: {
                /** @description The job's UUID */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["JobLedgerPage"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "override-job": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The job's UUID */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    /** @description Whether the job follows its source */
                    auto_managed?: boolean;
                    /**
                     * Format: int64
                     * @description The job rests after failed runs: for this time, doubled for each of them in a row; default the interval
                     */
                    backoff_base_minutes?: number | null;
                    /**
                     * Format: int64
                     * @description The longest that it rests; default 1440
                     */
                    backoff_max_minutes?: number | null;
                    /** Format: int64 */
                    catch_up_cap?: number | null;
                    /** @enum {string|null} */
                    catch_up_policy?: "none" | "one" | "recent" | "all" | null;
                    /** Format: int64 */
                    catch_up_spread_seconds?: number | null;
                    /** Format: int64 */
                    catch_up_window_seconds?: number | null;
                    crawl_window?: {
                        /** @description Days on which it opens, 0 is Sunday; empty: every day. A request may name them, such as mon */
                        days?: (number | string)[];
                        /**
                         * Format: int64
                         * @description When it closes
                         * @example 6
                         */
                        end_hour: number;
                        /**
                         * Format: int64
                         * @description When it opens
                         * @example 22
                         */
                        start_hour: number;
                        /**
                         * @description Whose hours these are
                         * @example Europe/Berlin
                         */
                        time_zone?: string;
                    } | null;
                    /**
                     * @description A cron expression of five fields, in place of an interval
                     * @example 0 6 * * 1-5
                     */
                    cron?: string | null;
                    /**
                     * Format: int64
                     * @description From one due time to the next
                     */
                    interval_minutes?: number | null;
                    /** Format: int64 */
                    jitter_seconds?: number | null;
                    /**
                     * Format: int64
                     * @description Attempts of a run before it has failed; default 1
                     */
                    max_attempts?: number | null;
                    /** Format: int64 */
                    max_concurrent?: number | null;
                    /** @enum {string|null} */
                    overlap_policy?: "skip" | "buffer_one" | "cancel_other" | "allow" | null;
                    /** Format: int64 */
                    priority?: number | null;
                    /**
                     * Format: int64
                     * @description From a failed attempt of a run to the next, doubled for each further attempt; default 60
                     */
                    retry_delay_seconds?: number | null;
                    /**
                     * @description Of the cron expression; default UTC
                     * @example Europe/Berlin
                     */
                    time_zone?: string | null;
                };
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Job"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Timeout */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Entity Too Large */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unsupported Media Type */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "automate-job": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The job's UUID */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Job"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "pause-job": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The job's UUID */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["JobCommandBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Job"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Timeout */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Entity Too Large */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unsupported Media Type */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "resume-job": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The job's UUID */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["JobCommandBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Job"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Timeout */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Entity Too Large */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unsupported Media Type */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "skip-next-run": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The job's UUID */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["JobCommandBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Job"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Timeout */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Entity Too Large */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unsupported Media Type */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "unskip-next-run": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The job's UUID */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["JobCommandBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Job"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Timeout */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Entity Too Large */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unsupported Media Type */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "list-upcoming-runs": {
        parameters: {
            query?: {
                /** @description How many due times */
                limit?: number;
            };
            header?: never;
            path: {
                /** @description The job's UUID */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Upcoming"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    live: {
        parameters: {
            query?: {
                /** @description The token, where no header can be set */
                access_token?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The connection is a WebSocket; its messages are described above */
            101: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Request"] | components["schemas"]["LiveSnapshot"] | components["schemas"]["LiveError"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Upgrade Required */
            426: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "live-events": {
        parameters: {
            query?: {
                /** @description Which view; default funnel */
                view?: "batches" | "dlq" | "funnel" | "lag" | "queues" | "uploads";
                /** @description The id of the last event that the reader has had, where no header can be set */
                last_event_id?: string;
                /** @description The token, where no header can be set */
                access_token?: string;
                /** @description Leave out events whose metadata says is_reclassification */
                exclude_reclassifications?: boolean;
                /** @description Only this upload; empty: all */
                jobId?: string;
                /** @description Only batches of this job; empty: all */
                job_id?: string;
                /** @description Default today */
                period?: "today" | "24h" | "7d" | "30d";
                /** @description Only batches of this platform, as announced; empty: all */
                platform?: string;
                /** @description Only uploads with this processor; empty: any */
                processor?: string;
                /** @description Only batches of this project; empty: all */
                project_id?: string;
                /** @description Only uploads in this state; empty: any */
                queue_state?: "" | "QUEUED" | "RUNNING" | "PAUSED" | "DONE" | "FAILED";
                /** @description Only this source; empty: all */
                source?: string;
                /** @description The time zone in which days begin; default UTC */
                tz?: string;
                /** @description Only uploads of this user; others than your own are for admins; empty: all that you may see */
                user?: string;
            };
            header?: {
                /** @description The id of the last event that the reader has had */
                "Last-Event-ID"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The events, without end */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": components["schemas"]["LiveSnapshot"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    metrics: {
        parameters: {
            query?: {
                /** @description Only metrics of this name; it may stand several times */
                "name[]"?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The metrics */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/plain": unknown;
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "put-object": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @example crawl-results */
                bucket: string;
                /** @example tiktok/batch_001.json */
                key: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/octet-stream": string;
            };
        };
        responses: {
            /** @description It was there already */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StoredObject"];
                };
            };
            /** @description It is stored */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StoredObject"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Timeout */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Entity Too Large */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unsupported Media Type */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "list-pending-items": {
        parameters: {
            query?: {
                /** @description Only items with one of these statuses, with commas between them */
                statuses?: string;
                /** @description Of the caller, or of all users, which is for admins */
                userId?: "me" | "all";
                /** @description Only items of files of this format */
                jobType?: "csv" | "ndjson" | "xlsx" | "zip";
                /** @description How many items a page has at most */
                pageSize?: number;
                /** @description next of the page before, with the same parameters */
                after?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["PendingPage"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "get-files": {
        parameters: {
            query?: {
                /** @description Only files whose names contain this */
                search?: string;
                /** @description Only files with an item of this status; done: of which all items are done */
                status?: "new" | "started" | "done" | "failed";
                /** @description With status: at this stage; otherwise at any, and for done at the last */
                stage?: string;
                /** @description How many files at most */
                limit?: number;
                /** @description next_cursor of the page before, with the same filters */
                cursor?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Files"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "purge-files": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["PurgeRequestBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Purged"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Timeout */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Entity Too Large */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unsupported Media Type */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "register-file": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["RegisterFile"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Registered"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Timeout */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Entity Too Large */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unsupported Media Type */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "get-file": {
        parameters: {
            query?: {
                /** @description Also who took each item at each stage, when, how often, and the last error */
                detail?: boolean;
            };
            header?: never;
            path: {
                filename: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["FileState"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "cancel-file": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                filename: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Cancelled"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Entity Too Large */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unsupported Media Type */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "get-file-history": {
        parameters: {
            query?: {
                /** @description Only of this shard */
                shard?: string;
                /** @description Only at this stage */
                stage?: string;
                /** @description How many at most */
                limit?: number;
                /** @description next_cursor of the page before */
                cursor?: string;
            };
            header?: never;
            path: {
                filename: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["History"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "prioritize-file": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                filename: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["PriorityRequestBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Prioritized"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Timeout */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Entity Too Large */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unsupported Media Type */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "get-shard-summary": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Summary"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "get-queue": {
        parameters: {
            query?: {
                /** @description How many items at most */
                limit?: number;
                /** @description How many to leave out first; cursor is the faster way */
                offset?: number;
                /** @description Only items that changed at or after this time, RFC 3339 */
                updated_since?: string;
                /** @description next_cursor of the page before */
                cursor?: string;
            };
            header?: never;
            path: {
                /** @description shard-splitter, shard-worker or mysql-sender */
                stage: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Queue"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "limit-stage": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description shard-splitter, shard-worker or mysql-sender */
                stage: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["LimitRequestBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StageSettings"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Timeout */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Entity Too Large */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unsupported Media Type */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "pause-stage": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description shard-splitter, shard-worker or mysql-sender */
                stage: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["NoMembers"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StageSettings"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Timeout */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Entity Too Large */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unsupported Media Type */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "resume-stage": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description shard-splitter, shard-worker or mysql-sender */
                stage: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["NoMembers"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["StageSettings"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Timeout */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Entity Too Large */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unsupported Media Type */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "take-items": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description shard-splitter, shard-worker or mysql-sender */
                stage: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["TakeItems"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Taken"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Timeout */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Entity Too Large */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unsupported Media Type */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "finish-event-ingest": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["FinishIngest"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Finished"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Timeout */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Entity Too Large */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unsupported Media Type */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "retry-failed-items": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description shard-splitter, shard-worker or mysql-sender */
                stage: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["RetryFailedRequestBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Retried"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Timeout */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Entity Too Large */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unsupported Media Type */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "move-item": {
        parameters: {
            query?: never;
            header?: {
                /** @description With start, by a caller who names no worker: the same key with the same start is the same caller, who is told 200 again; 1 to 190 bytes */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description shard-splitter, shard-worker or mysql-sender */
                stage: string;
                /** @description start, done, fail, retry, release, again or extend */
                transition: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["MoveItem"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Moved"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Timeout */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Entity Too Large */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unsupported Media Type */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "move-items": {
        parameters: {
            query?: never;
            header?: {
                /** @description With start, by a caller who names no worker: the same key with the same start is the same caller, who is told 200 again; 1 to 190 bytes */
                "Idempotency-Key"?: string;
            };
            path: {
                /** @description shard-splitter, shard-worker or mysql-sender */
                stage: string;
                /** @description start, done, fail, retry, release, again or extend */
                transition: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["BulkRequestBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Bulk"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Timeout */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Entity Too Large */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unsupported Media Type */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "follow-transitions": {
        parameters: {
            query?: {
                /** @description Only at this stage */
                stage?: string;
                /** @description Only of this file */
                filename?: string;
                /** @description Begin behind this event */
                last_event_id?: string;
            };
            header?: {
                /** @description Begin behind this event */
                "Last-Event-ID"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The events, without end */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": components["schemas"]["Transition"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "list-processes": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Answer"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "list-queues": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UserQueueList"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "create-queue": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CreateQueueRequest"];
            };
        };
        responses: {
            /** @description It was there already, alike */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UserQueueSettings"];
                };
            };
            /** @description It was made */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UserQueueSettings"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Timeout */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Entity Too Large */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unsupported Media Type */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "get-user-queue": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                queue: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UserQueue"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "delete-queue": {
        parameters: {
            query?: {
                /** @description Delete items that are new, scheduled or started as well */
                force?: boolean;
            };
            header?: never;
            path: {
                queue: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["DeletedQueue"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "cancel-group": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                queue: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["CancelGroupRequestBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MovedCount"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Timeout */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Entity Too Large */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unsupported Media Type */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "list-queue-items": {
        parameters: {
            query?: {
                /** @description new, scheduled, started, done, failed, dead or cancelled */
                state?: string;
                group?: string;
                key?: string;
                /** @description Text that the payload has somewhere, as its JSON was given; any case */
                payload?: string;
                /** @description Only items that are at work, or wait, after an attempt that has failed */
                retried?: boolean;
                /** @description Only items that have not changed for so many seconds */
                unchanged_s?: number;
                limit?: number;
                /** @description next_cursor of the page before */
                cursor?: string;
            };
            header?: never;
            path: {
                queue: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UserQueueItems"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "add-items": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                queue: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["AddItemsRequestBody"];
            };
        };
        responses: {
            /** @description It was there already, alike */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AddedItems"];
                };
            };
            /** @description It was made */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["AddedItems"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Timeout */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Entity Too Large */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unsupported Media Type */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Too Many Requests */
            429: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "get-queue-item": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                queue: string;
                id: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UserQueueItemHistory"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "replay-queue-item": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                queue: string;
                id: number;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ReplayQueueItemRequestBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MovedQueueItem"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Timeout */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Entity Too Large */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unsupported Media Type */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "move-queue-item": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                queue: string;
                id: number;
                /** @description done, fail, again, release, extend, cancel or retry */
                transition: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["MoveQueueItemRequestBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MovedQueueItem"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Timeout */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Entity Too Large */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unsupported Media Type */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "limit-queue": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                queue: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["LimitQueueRequestBody"];
            };
        };
        responses: {
            /** @description It was there already, alike */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UserQueueSettings"];
                };
            };
            /** @description It was made */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UserQueueSettings"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Timeout */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Entity Too Large */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unsupported Media Type */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "pause-queue": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                queue: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["NoMembers"];
            };
        };
        responses: {
            /** @description It was there already, alike */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UserQueueSettings"];
                };
            };
            /** @description It was made */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UserQueueSettings"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Timeout */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Entity Too Large */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unsupported Media Type */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "resume-queue": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                queue: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["NoMembers"];
            };
        };
        responses: {
            /** @description It was there already, alike */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UserQueueSettings"];
                };
            };
            /** @description It was made */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UserQueueSettings"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Timeout */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Entity Too Large */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unsupported Media Type */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "retry-queue-items": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                queue: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["RetryItemsRequestBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MovedCount"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Timeout */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Entity Too Large */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unsupported Media Type */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "take-queue-items": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                queue: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["TakeItems"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["TakenFromQueue"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Timeout */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Entity Too Large */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unsupported Media Type */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "follow-queue-transitions": {
        parameters: {
            query?: {
                /** @description Begin behind this event */
                last_event_id?: string;
            };
            header?: {
                /** @description Begin behind this event */
                "Last-Event-ID"?: string;
            };
            path: {
                queue: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The events, without end */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/event-stream": components["schemas"]["UserQueueTransition"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "get-queue-webhook": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                queue: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["QueueWebhook"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "set-queue-webhook": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                queue: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["SetQueueWebhook"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["QueueWebhook"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Timeout */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Entity Too Large */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unsupported Media Type */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "delete-queue-webhook": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                queue: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description No Content */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    ready: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It can: every dependency that it needs is up */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Readiness"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description One that it needs is down */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Readiness"];
                };
            };
        };
    };
    "event-schema": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The schema */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": unknown;
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "list-sources": {
        parameters: {
            query?: {
                /** @description Only sources with this in their name or URL, in any case */
                q?: string;
                /** @description Only sources that are enabled, or that are not */
                enabled?: "true" | "false";
                /** @description Only sources of this priority */
                priority?: "low" | "normal" | "high" | "critical";
                /** @description Only sources whose job is in this status */
                job_status?: "pending" | "running" | "paused" | "failed" | "orphaned";
                /** @description Only sources whose job is of this health */
                health?: "healthy" | "warning" | "failed" | "unknown";
                /** @description How many sources a page has at most */
                limit?: number;
                /** @description next_cursor of the page before, with the same filters */
                cursor?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CrawlSourcePage"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "create-source": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    /** @description Whether it is crawled */
                    enabled?: boolean;
                    /**
                     * Format: int64
                     * @description How many links away from its URL it is crawled
                     * @example 3
                     */
                    max_depth?: number;
                    /**
                     * @description What people call it, 1 to 255 bytes
                     * @example Example News
                     */
                    name: string;
                    /**
                     * @description How urgent its crawls are
                     * @enum {string}
                     */
                    priority?: "low" | "normal" | "high" | "critical";
                    /**
                     * Format: int64
                     * @description Requests a second that it allows
                     * @example 10
                     */
                    rate_limit?: number;
                    /** @description Where its pages have their parts, by the name of the part: a JSON object */
                    selectors?: unknown;
                    /**
                     * @description Where its crawl begins
                     * @example https://example.com
                     */
                    url: string;
                };
            };
        };
        responses: {
            /** @description Created */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["MadeCrawlSource"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Timeout */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Entity Too Large */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unsupported Media Type */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "begin-sources-act": {
        parameters: {
            query?: never;
            header?: {
                /** @description The same request with the same key, by the same caller, answers 200 with the act that the first has begun */
                "Idempotency-Key"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["BeginSourcesActBody"];
            };
        };
        responses: {
            /** @description It was there already, alike */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BegunAct"];
                };
            };
            /** @description It was made */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["BegunAct"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Timeout */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Entity Too Large */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unsupported Media Type */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "count-sources-act": {
        parameters: {
            query?: {
                /** @description Only sources with this in their name or URL, in any case */
                q?: string;
                /** @description Only sources that are enabled, or that are not */
                enabled?: "true" | "false";
                /** @description Only sources of this priority */
                priority?: "low" | "normal" | "high" | "critical";
                /** @description Only sources whose job is in this status */
                job_status?: "pending" | "running" | "paused" | "failed" | "orphaned";
                /** @description Only sources whose job is of this health */
                health?: "healthy" | "warning" | "failed" | "unknown";
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ActCount"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "change-sources": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": components["schemas"]["ChangeSourcesRequestBody"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ChangedSources"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Timeout */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Entity Too Large */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unsupported Media Type */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "export-sources": {
        parameters: {
            query: {
                format: "opml" | "csv" | "jsonl";
                q?: string;
                enabled?: "true" | "false";
                priority?: "low" | "normal" | "high" | "critical";
                job_status?: "pending" | "running" | "paused" | "failed" | "orphaned";
                health?: "healthy" | "warning" | "failed" | "unknown";
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The list */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/x-ndjson": string;
                    "text/csv": string;
                    "text/x-opml": string;
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "import-sources": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/jsonl": string;
                "application/x-ndjson": string;
                "application/xml": string;
                "text/csv": string;
                "text/x-opml": string;
                "text/xml": string;
            };
        };
        responses: {
            /** @description What became of it */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ImportedSources"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Timeout */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Entity Too Large */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unsupported Media Type */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "get-source": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The source's UUID */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CrawlSource"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "update-source": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The source's UUID */
                id: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    /** @description Whether it is crawled */
                    enabled?: boolean;
                    /**
                     * Format: int64
                     * @description How many links away from its URL it is crawled
                     * @example 3
                     */
                    max_depth?: number;
                    /**
                     * @description What people call it, 1 to 255 bytes
                     * @example Example News
                     */
                    name?: string;
                    /**
                     * @description How urgent its crawls are
                     * @enum {string}
                     */
                    priority?: "low" | "normal" | "high" | "critical";
                    /**
                     * Format: int64
                     * @description Requests a second that it allows
                     * @example 10
                     */
                    rate_limit?: number;
                    /** @description Where its pages have their parts, by the name of the part: a JSON object */
                    selectors?: unknown;
                    /**
                     * @description Where its crawl begins
                     * @example https://example.com
                     */
                    url?: string;
                };
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CrawlSource"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Timeout */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Entity Too Large */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unsupported Media Type */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "delete-source": {
        parameters: {
            query?: {
                /** @description Why, for the event */
                reason?: string;
            };
            header?: never;
            path: {
                /** @description The source's UUID */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description No Content */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "disable-source": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The source's UUID */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["ToggleReason"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CrawlSource"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Timeout */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Entity Too Large */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unsupported Media Type */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "enable-source": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The source's UUID */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["ToggleReason"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["CrawlSource"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Timeout */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Entity Too Large */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unsupported Media Type */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "list-executions": {
        parameters: {
            query?: {
                /** @description How many items a page has at most */
                limit?: number;
                /** @description next_cursor of the page before, with the same filters */
                cursor?: string;
                /** @description Only runs in this status */
                status?: "queued" | "running" | "success" | "failed" | "cancelled";
            };
            header?: never;
            path: {
                /** @description The source's UUID */
                source_id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ExecutionPage"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "get-stats": {
        parameters: {
            query?: {
                /** @description As for the funnel */
                period?: "today" | "24h" | "7d" | "30d";
                /** @description As for the funnel */
                from?: string;
                /** @description As for the funnel */
                to?: string;
                /** @description As for the funnel */
                tz?: string;
                /** @description Only events of this source */
                source?: string;
                /** @description Leave out events whose metadata says is_reclassification */
                exclude_reclassifications?: boolean;
                /** @description How many names by_source, by_model_version, by_topic and by_channel have at most, each the largest */
                limit?: number;
                /** @description Quality scores as whole numbers, for clients that read integers */
                round?: boolean;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Stats"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "get-drift": {
        parameters: {
            query?: {
                /** @description As for the funnel; without a window, everything that is kept */
                period?: "today" | "24h" | "7d" | "30d";
                /** @description As for the funnel */
                from?: string;
                /** @description As for the funnel */
                to?: string;
                /** @description As for the funnel */
                tz?: string;
                /** @description Only events of this source */
                source?: string;
                /** @description Model version to compare with; default the one before current */
                reference?: string;
                /** @description Model version that is compared; default the newest */
                current?: string;
                /** @description Compare windows instead, or versions each within a window: all four times are needed */
                reference_from?: string;
                reference_to?: string;
                current_from?: string;
                current_to?: string;
                /** @description Quality scores and their differences as whole numbers, for clients that read integers */
                round?: boolean;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Drift"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "list-uploads": {
        parameters: {
            query?: {
                /** @description Only uploads in this state */
                queue_state?: "QUEUED" | "RUNNING" | "PAUSED" | "DONE" | "FAILED";
                /** @description Only uploads with this processor */
                processor?: string;
                /** @description Only uploads of this user; others than your own are for admins */
                user?: string;
                /** @description How many a page has at most */
                limit?: number;
                /** @description next_cursor of the page before, with the same filters */
                cursor?: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UploadPage"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "create-upload": {
        parameters: {
            query?: {
                /** @description Have the upload wait as PAUSED, so that preview can be looked at first */
                hold?: boolean;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/json": {
                    /** @description As in the form */
                    delimiter?: string;
                    /** @description As in the form */
                    encoding?: string;
                    /** @description As in the form */
                    format?: string;
                    /** @description As the parameter */
                    hold?: boolean;
                    /** @description Names of columns by field. title, brand and sku summarize items */
                    mapping?: {
                        [key: string]: string;
                    };
                    /** @description As in the form */
                    name?: string;
                    /** @description As in the form */
                    processor?: string;
                    /** @description s3://bucket/key, nats://bucket/key, file:///folder/name or ftp://user:password@host/path, as the server allows */
                    reference: string;
                };
                "multipart/form-data": {
                    /** @description Of CSV; default as the first rows say */
                    delimiter?: string;
                    /** @description Default as the file's bytes say */
                    encoding?: string;
                    /**
                     * Format: binary
                     * @description The file
                     */
                    file: string;
                    /** @description csv, ndjson, xlsx or zip; default as the file's first bytes and name say */
                    format?: string;
                    /** @description As the parameter; true or false */
                    hold?: string;
                    /** @description Names of columns by field, a JSON object: {"title":"ProductName"}. title, brand and sku summarize items; image names the images of a zip */
                    mapping?: string;
                    /** @description Of the upload, at most 255 characters; default that of the file */
                    name?: string;
                    /** @description What makes results of rows: copy, by which each row is its result, or the name of a queue whose workers do. Default copy */
                    processor?: string;
                };
            };
        };
        responses: {
            /** @description The upload is made */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UploadReceived"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Timeout */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Entity Too Large */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unsupported Media Type */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "tus-create": {
        parameters: {
            query?: never;
            header: {
                /** @description 1.0.0 */
                "Tus-Resumable": string;
                /** @description Bytes of the file */
                "Upload-Length": string;
                /** @description filename, and processor, name, mapping, format, encoding, delimiter and hold as in the form; sha256 of the file, in hexadecimal digits: another one is refused when all of it has come in */
                "Upload-Metadata"?: string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/offset+octet-stream": string;
            };
        };
        responses: {
            /** @description It has begun */
            201: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Timeout */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Precondition Failed */
            412: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Entity Too Large */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unsupported Media Type */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "tus-options": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Tus-Version, Tus-Extension and Tus-Max-Size say so */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Precondition Failed */
            412: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "tus-delete": {
        parameters: {
            query?: never;
            header: {
                /** @description 1.0.0 */
                "Tus-Resumable": string;
            };
            path: {
                /** @description The upload's id */
                jobId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It is deleted */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Precondition Failed */
            412: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "tus-offset": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The upload's id */
                jobId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Upload-Offset, Upload-Length, Upload-Metadata and Upload-Expires */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Precondition Failed */
            412: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "tus-append": {
        parameters: {
            query?: never;
            header: {
                /** @description 1.0.0 */
                "Tus-Resumable": string;
                /** @description How much has come in, as HEAD says */
                "Upload-Offset": string;
            };
            path: {
                /** @description The upload's id */
                jobId: string;
            };
            cookie?: never;
        };
        requestBody: {
            content: {
                "application/offset+octet-stream": string;
            };
        };
        responses: {
            /** @description It is stored. Upload-Offset says how much there is */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Timeout */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Precondition Failed */
            412: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Entity Too Large */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unsupported Media Type */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "get-upload": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The upload's id */
                jobId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Upload"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "delete-upload": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The upload's id */
                jobId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description No Content */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "cancel-upload": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The upload's id */
                jobId: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["NoMembers"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Upload"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Timeout */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Entity Too Large */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unsupported Media Type */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "get-upload-export": {
        parameters: {
            query?: {
                /** @description CSV as in RFC 4180, JSON lines, the same compressed by zstd, XLSX, all of whose cells are texts, or Parquet, all of whose columns are */
                format?: "csv" | "ndjson" | "ndjson.zst" | "xlsx" | "parquet";
                /** @description CSV has no apostrophes before texts that a spreadsheet would take for a formula */
                exact?: boolean;
            };
            header?: never;
            path: {
                /** @description The upload's id */
                jobId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The file. The trailer Millrace-Sha256 is its SHA-256, as sha256sum prints it. */
            200: {
                headers: {
                    "Content-Disposition"?: string;
                    "Content-Type"?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/vnd.apache.parquet": string;
                    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": string;
                    "application/x-ndjson": string;
                    "application/zstd": string;
                    "text/csv; charset=utf-8; header=present": string;
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "export-upload": {
        parameters: {
            query?: {
                format?: "csv" | "ndjson" | "ndjson.zst" | "xlsx" | "parquet";
                /** @description CSV has no apostrophes before texts that a spreadsheet would take for a formula */
                exact?: boolean;
            };
            header?: never;
            path: {
                /** @description The upload's id */
                jobId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Accepted */
            202: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UploadExport"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Entity Too Large */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unsupported Media Type */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "list-upload-exports": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The upload's id */
                jobId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UploadExports"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "show-upload-export": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The upload's id */
                jobId: string;
                /** @description The export's id */
                exportId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UploadExport"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "delete-upload-export": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The upload's id */
                jobId: string;
                /** @description The export's id */
                exportId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description No Content */
            204: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "get-upload-export-file": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The upload's id */
                jobId: string;
                /** @description The export's id */
                exportId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The file. The trailer Millrace-Sha256 is its SHA-256, as sha256sum prints it. */
            200: {
                headers: {
                    "Content-Disposition"?: string;
                    "Content-Type"?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/vnd.apache.parquet": string;
                    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": string;
                    "application/x-ndjson": string;
                    "application/zstd": string;
                    "text/csv; charset=utf-8; header=present": string;
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "get-upload-file": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The upload's id */
                jobId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The file. The trailer Millrace-Sha256 is its SHA-256, as sha256sum prints it. */
            200: {
                headers: {
                    "Content-Disposition"?: string;
                    "Content-Type"?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/octet-stream": string;
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "get-upload-image": {
        parameters: {
            query?: {
                /** @description As the link has it. The upload's user and admins need none */
                key?: string;
            };
            header?: never;
            path: {
                /** @description The upload's id */
                jobId: string;
                /** @description Its place among the rows of the upload */
                rowNo: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The image */
            200: {
                headers: {
                    "Cache-Control"?: string;
                    "Content-Disposition"?: string;
                    "Content-Length"?: number;
                    "Content-Security-Policy"?: string;
                    "Content-Type"?: string;
                    "X-Content-Type-Options"?: string;
                    [name: string]: unknown;
                };
                content: {
                    "image/*": string;
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "get-upload-input": {
        parameters: {
            query?: {
                /** @description As the link has it. The upload's user and admins need none */
                key?: string;
            };
            header?: never;
            path: {
                /** @description The upload's id */
                jobId: string;
                /** @description Its place among the rows of the file */
                rowNo: number;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UploadInput"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "list-upload-items": {
        parameters: {
            query?: {
                /** @description Only items with one of these statuses, with commas between them */
                statuses?: string;
                /** @description Only items with this status */
                status?: "PENDING" | "PROCESSING" | "DONE" | "ERROR" | "NOT_FOUND" | "SKIPPED";
                /** @description Default row_no, and updated_at with statuses */
                sort?: "row_no" | "updated_at";
                /** @description How many items a page has at most. It has fewer where results are large */
                pageSize?: number;
                /** @description Which page, from 1, among the first 10,000 items; not beside after */
                page?: number;
                /** @description next of the page before, with the same parameters */
                after?: string;
            };
            header?: never;
            path: {
                /** @description The upload's id */
                jobId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UploadItemPage"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "kickoff-upload": {
        parameters: {
            query?: {
                /** @description How long it may take */
                durationMs?: number;
            };
            header?: never;
            path: {
                /** @description The upload's id */
                jobId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UploadSlice"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Entity Too Large */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unsupported Media Type */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "pause-upload": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The upload's id */
                jobId: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["NoMembers"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Upload"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Timeout */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Entity Too Large */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unsupported Media Type */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "preview-upload": {
        parameters: {
            query?: {
                /** @description Default: that of the upload */
                encoding?: string;
                /** @description Default: that of the upload; tab is a tab */
                delimiter?: string;
            };
            header?: never;
            path: {
                /** @description The upload's id */
                jobId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["UploadPreview"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "list-rejected-rows": {
        parameters: {
            query?: {
                /** @description How many a page has at most */
                limit?: number;
                /** @description next_cursor of the page before */
                cursor?: string;
            };
            header?: never;
            path: {
                /** @description The upload's id */
                jobId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["RejectedRowPage"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "get-rejected-file": {
        parameters: {
            query?: {
                /** @description CSV as in RFC 4180, JSON lines with the rows as the list has them, the same compressed by zstd, or Parquet. In CSV an apostrophe stands before a text that a spreadsheet would take for a formula */
                format?: "csv" | "ndjson" | "ndjson.zst" | "parquet";
            };
            header?: never;
            path: {
                /** @description The upload's id */
                jobId: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The file. The trailer Millrace-Sha256 is its SHA-256, as sha256sum prints it. */
            200: {
                headers: {
                    "Content-Disposition"?: string;
                    "Content-Type"?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/vnd.apache.parquet": string;
                    "application/x-ndjson": string;
                    "application/zstd": string;
                    "text/csv; charset=utf-8; header=present": string;
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "reprocess-upload": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The upload's id */
                jobId: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["ReprocessedItems"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["ReprocessedUpload"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Timeout */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Entity Too Large */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unsupported Media Type */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
    "resume-upload": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description The upload's id */
                jobId: string;
            };
            cookie?: never;
        };
        requestBody?: {
            content: {
                "application/json": components["schemas"]["ResumedUpload"];
            };
        };
        responses: {
            /** @description OK */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Upload"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unauthorized */
            401: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Forbidden */
            403: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Timeout */
            408: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Request Entity Too Large */
            413: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Unsupported Media Type */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Internal Server Error */
            500: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
            /** @description Service Unavailable */
            503: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/problem+json": components["schemas"]["Problem"];
                };
            };
        };
    };
}
